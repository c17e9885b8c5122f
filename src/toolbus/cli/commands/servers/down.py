"""`toolbus down`: stop the background bus of a config, and wait for its end.

Commands that run may end first, within the time that the bus gives them.
"""

import time
from typing import TYPE_CHECKING

from toolbus.cli.command import CommandResult, Invocation, command
from toolbus.cli.output.screen import short_path

if TYPE_CHECKING:
    from toolbus.background.inquiry import Inquiry

WITHIN = 90.0
"""Seconds: commands have 30, and servers their own time to stop."""
POLL_SECONDS = 0.02


@command
def down(own: Invocation) -> CommandResult:
    """Stop the servers in the background.

    Commands in progress get 30 seconds to finish.
    """
    from toolbus.background.inquiry import open_inquiry
    from toolbus.cli.output.bus_status import background_config

    screen, file = own.screen, background_config(own.settings)
    inquiry = open_inquiry(file, own.settings.profile)
    if inquiry is None:
        return CommandResult(
            {"stopped": False, "config": str(file)},
            lambda: screen.note(f"no background bus for {short_path(file)} is running"),
        )
    with screen.spinner("stopping; waiting for commands that run"), inquiry:
        pid = _stop(inquiry)
    return CommandResult(
        {"stopped": True, "config": str(file), "pid": pid},
        f"stopped the background bus for {short_path(file)}",
    )


def _stop(inquiry: "Inquiry") -> int | None:
    """Stop the bus, and wait for its end; returns the id of its process."""
    from toolbus.background.inquiry import NoAnswer, is_claimed

    pid = inquiry.ask("stop").get("stopping")
    deadline = time.monotonic() + WITHIN
    has_ended = inquiry.wait_for_end(WITHIN)
    while is_claimed(inquiry.place):  # its process is about to end
        if not has_ended or time.monotonic() > deadline:
            raise NoAnswer(inquiry.place, f"(pid {pid}) did not stop within {WITHIN:g} s")
        time.sleep(POLL_SECONDS)
    return pid
