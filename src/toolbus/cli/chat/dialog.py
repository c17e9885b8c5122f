"""A dialog in the terminal: prompts and commands, until the person ends it."""

import shlex
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING

from toolbus.agent import Agent
from toolbus.cli.chat.keyboard import Keyboard
from toolbus.cli.chat.turns import Turns
from toolbus.cli.outcome import told
from toolbus.cli.screen import Screen
from toolbus.cli.tools import show_server

if TYPE_CHECKING:
    from toolbus.bus import Toolbus

INTERRUPTED = 130
HINT = "Ctrl-C again, or /quit, ends the chat"


class Quit(Exception):
    """The person wants to leave."""


class Dialog:
    """Reads lines, and does what they say."""

    def __init__(
        self, screen: Screen, keyboard: Keyboard, turns: Turns, agent: Agent, bus: "Toolbus"
    ) -> None:
        self._screen = screen
        # What is shown here is no answer of the model: to stderr with it.
        self._aside = copy(screen)
        self._aside.out = screen.err
        self._keyboard = keyboard
        self._turns = turns
        self._agent = agent
        self._bus = bus
        self._own_files: set[Path] = set()
        self._commands: dict[str, tuple[str, Callable[[str], None]]] = {
            "/tools": ("the servers and their tools", self._tools),
            "/servers": ("the servers, and how they are", self._servers),
            "/save": ("FILE: write the conversation to a file, as JSON", self._save),
            "/help": ("this list", self._help),
            "/quit": ("end the chat; so does Ctrl-D", self._quit),
        }

    def run(self, model: str) -> int:
        """Until the end; gives the exit code."""
        tools, servers = len(self._bus.catalog), len(self._bus.servers)
        self._screen.note(f"{model} with {tools} tools of {servers} servers; /help says what else there is")
        interrupted = False
        while True:
            try:
                line = self._keyboard.line("> ")
                interrupted = False
                self._obey(line)
            except (EOFError, Quit) as end:
                if isinstance(end, EOFError):
                    self._screen.note("")
                return 0
            except KeyboardInterrupt:
                if interrupted:
                    self._screen.note("")
                    return INTERRUPTED
                interrupted = True
                self._screen.note(f"\n{HINT}")
            except UnicodeDecodeError:
                self._screen.note("that is no text in the terminal's encoding")

    def _obey(self, line: str) -> None:
        if not line.strip():
            return
        if not line.startswith("/"):
            self._ask(line)
            return
        word, _, rest = line.strip().partition(" ")
        if word in self._commands:
            self._commands[word][1](rest.strip())
        else:
            self._screen.note(f"no command {word!r}; there are {', '.join(self._commands)}")

    def _ask(self, prompt: str) -> None:
        """A turn; one that ends early does not end the chat."""
        try:
            self._turns.take(prompt)
        except KeyboardInterrupt:
            self._screen.note(
                "stopped; what was said in this turn is forgotten, what tools did is not undone"
            )
        except BrokenPipeError:
            raise  # nobody reads the answers any more
        except Exception as error:  # the edge of a turn: the person decides how to go on
            told(error, as_json=False)

    def _tools(self, rest: str) -> None:
        for alias, status in self._bus.servers.items():
            show_server(
                self._aside, alias, status, [s for s in self._bus.catalog if s.origin.server == alias]
            )

    def _servers(self, rest: str) -> None:
        for alias, status in self._bus.servers.items():
            show_server(self._aside, alias, status, [])

    def _save(self, rest: str) -> None:
        try:
            words = shlex.split(rest)
        except ValueError:  # a quote without its other half
            words = []
        if len(words) != 1:
            self._screen.note("/save FILE: name one file, in quotes if there are spaces in it")
            return
        path = Path(words[0]).expanduser()
        if path.exists() and path not in self._own_files:
            self._screen.note(f"{str(path)!r} is there already; name another file")
            return
        try:
            self._agent.save(path)
        except OSError as error:
            self._screen.note(f"not saved: {error.strerror or error}: {str(path)!r}")
            return
        self._own_files.add(path)
        self._screen.note(f"saved as {path}")

    def _help(self, rest: str) -> None:
        for name, (about, _) in self._commands.items():
            self._screen.note(f"  {name:9} {about}")
        self._screen.note("Ctrl-C stops a turn. A line that begins with a space is never a command.")

    def _quit(self, rest: str) -> None:
        raise Quit
