"""`toolbus down`: stop the background bus of a config, and wait for its end.

Commands that run may end first, within the time that the bus gives them.
"""

import time

from rich.text import Text

from toolbus.background.inquiry import NoAnswer, is_claimed, open_inquiry
from toolbus.cli.commands.servers.status import background_config
from toolbus.cli.options import SharedOptions
from toolbus.cli.output.screen import Screen, short_path

WITHIN = 90.0
"""Seconds: commands have 30, and servers their own time to stop."""
POLL_SECONDS = 0.02


def run(settings: SharedOptions) -> int:
    """Stop it, if one runs, and wait for its end."""
    screen, file = Screen(settings), background_config(settings)
    inquiry = open_inquiry(file)
    if inquiry is None:
        if screen.as_json:
            screen.json({"stopped": False, "config": str(file)})
        else:
            screen.note(f"no background bus for {short_path(file)} is running")
        return 0
    with screen.spinner("stopping; waiting for commands that run"), inquiry:
        pid = inquiry.ask("stop").get("stopping")
        deadline = time.monotonic() + WITHIN
        has_ended = inquiry.wait_for_end(WITHIN)
        while is_claimed(inquiry.place):  # its process is about to end
            if not has_ended or time.monotonic() > deadline:
                raise NoAnswer(inquiry.place, f"(pid {pid}) did not stop within {WITHIN:g} s")
            time.sleep(POLL_SECONDS)
    if screen.as_json:
        screen.json({"stopped": True, "config": str(file), "pid": pid})
    else:
        screen.print(Text(f"stopped the background bus for {short_path(file)}"))
    return 0
