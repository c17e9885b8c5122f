"""Tab in a real bash, which breaks words at `=` and `:`; what it shows and what it leaves in the line."""

import os
import pty
import re
import select
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.running import environment, scripted, toolbus, write_config
from toolbus.cli.bash import mended

pytestmark = pytest.mark.timeout(120)

SECONDS = 25
PROMPT = "READY> "
OFFERS = {
    "resources": [{"uri": "box://inbox", "name": "inbox"}],
    "templates": [{"uriTemplate": "box://{user}/{+path}", "name": "path"}],
    "prompts": [{"name": "reply", "arguments": [{"name": "tone"}]}],
    "completions": {"tone": ["kind words"], "path": {"ann": ["in/one"]}},
}


class Bash:
    """A shell that waits for keys."""

    def __init__(self, end: int) -> None:
        self._end = end
        self._text = ""

    def until(self, pattern: str) -> None:
        """Wait until something has come since the last time."""
        deadline = time.monotonic() + SECONDS
        while (found := re.search(pattern, self._text)) is None:
            ready, _, _ = select.select([self._end], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"{pattern!r} did not come; instead: {self._text!r}"
            self._text += os.read(self._end, 65536).decode(errors="replace").replace("\a", "")
        self._text = self._text[found.end() :]

    def completes(self, line: str, to: str) -> None:
        """Type a line, press Tab, see what becomes of it, and clear it."""
        os.write(self._end, f"{line}\t".encode())
        self.until(re.escape(to))
        os.write(self._end, b"\x15\r")
        self.until(re.escape(PROMPT))


@contextmanager
def bash(folder: Path) -> Generator[Bash]:
    """An interactive shell with the completion that `toolbus --show-completion` prints."""
    script = toolbus("--show-completion", "bash", folder=folder).stdout
    (folder / "rc").write_text(f"PS1='{PROMPT}'\nbind 'set enable-bracketed-paste off'\n{script}")
    ours, its = pty.openpty()
    process = subprocess.Popen(
        ["bash", "--noprofile", "--rcfile", "rc", "-i"],
        cwd=folder,
        env=environment(folder.parent, TERM="dumb"),
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
    )
    os.close(its)
    try:
        shell = Bash(ours)
        shell.until(re.escape(PROMPT))
        yield shell
    finally:
        process.kill()
        process.wait(SECONDS)
        os.close(ours)


def test_a_line_with_equals_signs_and_colons_is_completed_as_it_was_typed(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    write_config(folder, {"post": scripted(folder, "post", **OFFERS)})
    assert toolbus("resources", folder=folder).returncode == 0
    with bash(folder) as shell:
        shell.completes("toolbus read post box://in", "box://inbox ")
        shell.completes("toolbus read post box:", "box://")
        shell.completes("toolbus read post box://\\{", r"box://\{user\}/\{+path\} ")
        shell.completes("toolbus read post 'box://{", "'box://{user}/{+path}' ")
        shell.completes("toolbus prompt post/reply tone=", r"tone=kind\ words ")
        shell.completes("toolbus prompt post/reply tone='k", "tone='kind words' ")
        shell.completes("toolbus read 'box://{user}/{+path}' user=ann path=i", "path=in/one ")


@pytest.mark.parametrize(
    ("words", "at", "whole", "place", "done"),
    [
        (["t", "p", "a", "="], 3, ["t", "p", "a="], 2, "a="),
        (["t", "p", "a", "=", "b"], 4, ["t", "p", "a=b"], 2, "a="),
        (["t", "p", "a", "=", ""], 4, ["t", "p", "a=", ""], 3, ""),
        (["t", "p", "a", "=", "b", "c"], 5, ["t", "p", "a=b", "c"], 3, ""),
        (["t", "r", "x", ":", "//y"], 4, ["t", "r", "x://y"], 2, "x:"),
        (["t", "p", "u", "=", "x", ":", "//y"], 6, ["t", "p", "u=x://y"], 2, "u=x:"),
        (["t", "p", "f", "=@", "na"], 4, ["t", "p", "f=@na"], 2, "f=@"),
        (["t", "r", "'x://y"], 2, ["t", "r", "'x://y"], 2, ""),
        (["t", ""], 1, ["t", ""], 1, ""),
    ],
)
def test_broken_words_are_put_together_again(
    words: list[str], at: int, whole: list[str], place: int, done: str
) -> None:
    assert mended(words, at) == (whole, place, done)
