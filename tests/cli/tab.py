"""Tab in real shells: a user who installed completion, types a line and presses keys."""

import os
import re
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import warm
from tests.cli.running import environment, toolbus
from tests.cli.terminal import Terminal, terminal
from tests.patience import PATIENCE

READY = "[ready]"
SHOW = "\x1d"
"""The key, Ctrl-], that prints the line as the shell has it: no screen has to be read."""
SETTINGS = {
    ".bashrc": f"""
PS1='{READY}'
bind 'set enable-bracketed-paste off'
bind -x '"\\C-]": printf "[line:%s:end]" "$READLINE_LINE" > /dev/tty'
""",
    ".zshrc": f"""
PROMPT='{READY}'
show() {{ print -rn -- "[line:${{BUFFER}}:end]" > /dev/tty }}
zle -N show
bindkey '^]' show
""",
    ".config/fish/config.fish": f"""
set -g fish_greeting
set -g fish_autosuggestion_enabled 0
function fish_prompt; echo -n '{READY}'; end
bind \\c] 'printf "[line:%s:end]" (commandline | string collect) > /dev/tty'
""",
}
"""The settings that give each shell that prompt and that key."""
FISH_COMPLETIONS = ".local/share/fish/generated_completions"
"""The folder for fish's findings in the manual; without it, it reads the whole manual in the background."""


def printed(shell: str, line: str, folder: Path, **more: str) -> str:
    """The output of completion at the end of the line; no error is shown."""
    env = {
        "_TOOLBUS_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": line,
        "COMP_CWORD": str(line.count(" ")),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_WORD_TO_COMPLETE": line.split(" ")[-1],
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    run = toolbus(folder=folder, env=env | more)
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout


class Shell:
    """An interactive shell that waits for keys."""

    def __init__(self, screen: Terminal) -> None:
        self._screen = screen

    def after(self, keys: str) -> str:
        """The line after these keys, however long they take."""
        self._screen.press(keys + SHOW)
        found = re.search(r"\[line:(.*):end\]", self._screen.until(":end]"), re.DOTALL)
        assert found is not None
        return found[1]

    def completed(self, line: str) -> str:
        """The line after Tab; then the line is evaluated, by a command that does nothing."""
        assert self.after(line) == line
        found = self.after("\t")
        quotes = "".join(quote for quote in "'\"" if found.count(quote) % 2)
        # Ctrl-A: the beginning of the line.
        assert self.after(f"{quotes}\x01: \r") == ""
        return found


@contextmanager
def shell(name: str, folder: Path) -> Generator[Shell]:
    """A shell in that folder, after `toolbus --install-completion`; its home is the folder's parent."""
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"{name} is not installed")
    home = folder.parent
    # `true` at the end, or the shell would become the command and not be found as its parent.
    install = [program, "-c", "toolbus --install-completion; true"]
    subprocess.run(
        install, cwd=home, env=environment(home), capture_output=True, timeout=PATIENCE, check=True
    )
    for file, settings in SETTINGS.items():
        if name in file:
            with (home / file).open("a") as rc:
                rc.write(settings)
    (home / FISH_COMPLETIONS).mkdir(parents=True, exist_ok=True)
    env = {"TERM": "dumb", "PATH": os.pathsep.join([str(warm.folder()), os.environ["PATH"]])}
    with terminal("-i", folder=folder, program=program, env=env) as screen:
        screen.until(READY)
        yield Shell(screen)
