"""How many files of toolbus a call through the background bus runs, in both processes together."""

import json
import os
import signal
from pathlib import Path

from tests import warm
from tests.background.holding import Background
from tests.cli.running import environment
from tests.patience import PATIENCE, wait_until

LIMIT = 89
"""Only goes down: a reader of this journey opens that many files."""
TRACED = """
import dis, json, os, signal, sys, threading
from functools import cache
from pathlib import Path
import toolbus
from toolbus.cli.entry import main

output = Path(sys.argv.pop(1))
package = os.path.dirname(toolbus.__file__) + os.sep
files = set()

@cache
def start(code):  # a coroutine that is resumed reports another place
    return next(step.offset for step in dis.get_instructions(code) if step.opname == "RESUME")

def profile(frame, event, argument):
    code, name = frame.f_code, frame.f_code.co_filename
    if event == "call" and name.startswith(package) and code.co_name != "<module>":
        if frame.f_lasti == start(code):
            files.add(name.removeprefix(package))

def write(*_):
    threading.setprofile(None)
    sys.setprofile(None)
    draft = output.with_suffix(".new")
    draft.write_text(json.dumps(sorted(files)))
    draft.replace(output)

signal.signal(signal.SIGUSR1, lambda *_: (files.clear(), output.touch()))
signal.signal(signal.SIGUSR2, write)
threading.setprofile(profile)
sys.setprofile(profile)
try:
    main()
finally:
    if sys.getprofile():
        write()
"""


def test_a_call_through_the_background_bus_runs_few_files(folder: Path) -> None:
    seen = environment(folder.parent)

    def call(output: Path) -> None:
        words = ["-c", TRACED, str(output), "call", "every_echo", "text=on"]
        run = warm.run("python", words, folder, seen, "", PATIENCE)
        assert (run.returncode, run.stdout) == (0, "on\n"), run.stderr

    there, here = folder / "there.json", folder / "here.json"
    nothing = os.open(os.devnull, os.O_RDWR)
    output, writer = os.pipe()
    words = ["-c", TRACED, str(there), "up", "--foreground", "--no-console"]
    process = warm.Running("python", words, folder, seen, (nothing, writer, writer))
    os.close(writer)
    os.close(nothing)
    try:
        Background(process, output).until("'toolbus down")
        call(here)  # what happens once happens now
        os.kill(process.pid, signal.SIGUSR1)
        wait_until(there.exists, "it does not begin to count")
        call(here)
        os.kill(process.pid, signal.SIGUSR2)
        wait_until(lambda: bool(there.read_text()), "it does not report")
    finally:
        os.kill(process.pid, signal.SIGTERM)
        process.wait(PATIENCE)
        os.close(output)
    files = set[str](json.loads(there.read_text())) | set[str](json.loads(here.read_text()))
    assert len(files) <= LIMIT, "\n".join(sorted(files))
