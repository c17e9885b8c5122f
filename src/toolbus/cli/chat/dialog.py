"""The chat dialog on a terminal: prompts and commands, until the user quits; and sign-ins meanwhile."""

import asyncio
import os
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from toolbus.cli.chat.background import BackgroundLoop
from toolbus.cli.chat.conversation import ChatTurns
from toolbus.cli.chat.models import display_name
from toolbus.cli.commands.use.prompt import validated_arguments
from toolbus.cli.commands.use.tools import print_server
from toolbus.cli.errors import Usage, report
from toolbus.cli.input.arguments import texts
from toolbus.cli.input.ask import ask
from toolbus.cli.output.screen import Screen, one_line
from toolbus.cli.session import selected_servers
from toolbus.cli.sign_in import (
    LoginOptions,
    LoginPrompt,
    check_sign_in,
    connect_signed_in,
    needed_scopes,
    sign_in,
    signed_in_line,
    waiting_for_sign_in,
)
from toolbus.cli.terminal import TERMINAL, here
from toolbus.config import BusConfig
from toolbus.core.operation.events import CallEnded, Event
from toolbus.core.text.display import counted
from toolbus.core.values.errors import ToolbusError
from toolbus.core.values.records import Prompt
from toolbus.state.tokens.tokens import TokenSource

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus

INTERRUPTED = 130
NO = ("n", "no")
HINT = "press Ctrl-C again, or type /quit, to quit"


class FailedCalls:
    """Notices calls that failed because somebody has to sign in."""

    def __init__(self) -> None:
        self._scopes: dict[str, tuple[str, ...]] = {}

    def on_event(self, event: Event) -> None:
        """Note missing scopes; called in the thread of the bus."""
        if isinstance(event, CallEnded) and event.error:
            scopes = needed_scopes(event.error, event.server)
            if scopes is not None:
                self._scopes[event.server] = scopes

    def take(self) -> dict[str, tuple[str, ...]]:
        """The servers since the last time, with the scopes that were missing."""
        taken, self._scopes = self._scopes, {}
        return taken


class ChatSignIn:
    """Signs in on the main thread, which has the terminal, and connects the server then."""

    def __init__(
        self,
        screen: Screen,
        loop: BackgroundLoop,
        bus: "Toolbus",
        config: BusConfig,
        tokens: TokenSource,
        failed: FailedCalls,
        *,
        can_ask: bool,
    ) -> None:
        self._screen = screen
        self._can_ask = can_ask
        self._loop = loop
        self._bus = bus
        self._config = config
        self._tokens = tokens
        self._failed = failed
        self._offered: set[str] = set()
        """Servers that the user was asked about, since they last worked."""

    def offer(self) -> None:
        """Ask whether to sign in to the servers that wait for it, once each; nothing without a terminal."""
        waiting = dict.fromkeys(waiting_for_sign_in(self._bus), ()) | self._failed.take()
        self._offered &= set(waiting)
        for alias, scopes in waiting.items():
            if not self._can_ask or alias in self._offered:
                continue
            self._offered.add(alias)
            if self._wants_to(alias):
                self.run(alias, scopes)
            else:
                self._screen.note(f"/login {alias} signs in later")

    def run(self, alias: str, scopes: Sequence[str] = ()) -> None:
        """Sign in, and connect; an error is printed."""
        options, prompt = LoginOptions(scopes=scopes), LoginPrompt(self._screen)
        try:
            selected_servers(self._config, [alias])
            check_sign_in(self._config, alias)
            with self._screen.spinner(f"contacting {alias}"):
                login = asyncio.run(sign_in(self._config, alias, self._tokens, prompt, options))
            self._screen.note(signed_in_line(alias, login, self._tokens.place))
            with self._screen.spinner(f"starting {alias}"):
                self._loop.run(connect_signed_in(self._bus, alias))
        except KeyboardInterrupt:
            self._screen.note("not signed in")
        except ToolbusError as error:
            report(error, as_json=False)
        else:
            self._offered.discard(alias)
            tools = sum(spec.origin.server == alias for spec in self._bus.catalog)
            self._screen.note(f"{alias} is ready with {counted(tools, 'tool')}")

    def _wants_to(self, alias: str) -> bool:
        try:
            answer = ask(f"server {alias!r} needs you to sign in; sign in now? [Y/n]: ")
        except (EOFError, KeyboardInterrupt):
            self._screen.note("")
            return False
        return answer.strip().lower() not in NO


class Quit(Exception):
    """The user wants to quit."""


class Dialog:
    """Reads lines, and runs them as prompts or commands."""

    def __init__(
        self,
        screen: Screen,
        conversation: ChatTurns,
        bus: "Toolbus",
        change_model: Callable[[str], None],
        sign_in: ChatSignIn,
    ) -> None:
        self._screen = screen
        # Output of commands goes to stderr: stdout is for the model's text.
        self._stderr_screen = copy(screen)
        self._stderr_screen.out = screen.err
        self._conversation = conversation
        self._bus = bus
        self._change_model = change_model
        self._sign_in = sign_in
        self._model = ""
        self._own_files: set[Path] = set()
        self._commands: dict[str, tuple[str, Callable[[str], None]]] = {
            "/tools": ("list servers and their tools", self._tools),
            "/servers": ("list servers and their state", self._servers),
            "/model": ("NAME: switch to another model", self._model_command),
            "/login": ("SERVER [--scopes 'A B']: sign in to a server", self._login),
            "/clear": ("clear the conversation", self._clear),
            "/save": ("FILE: save the conversation as JSON", self._save),
            "/load": ("FILE: load a saved conversation", self._load),
            "/help": ("show this list", self._help),
            "/quit": ("quit; so does Ctrl-D", self._quit),
        }

    def run(self, model: str) -> int:
        """Run the dialog; return the exit code."""
        self._model = model
        tools, servers = counted(len(self._bus.catalog), "tool"), counted(len(self._bus.servers), "server")
        self._screen.note(f"{model} with {tools} on {servers}; /help lists the commands")
        interrupted = False
        while True:
            try:
                line = TERMINAL.get().read_line("> ")
                interrupted = False
                self._handle(line)
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
                self._screen.note("that is not text in the terminal's encoding")

    def _handle(self, line: str) -> None:
        if not line.strip():
            return
        if not line.startswith("/"):
            self._run_turn(lambda: self._conversation.send(line))
            return
        word, _, rest = line.strip().partition(" ")
        prompts = by_command(self._bus.prompts(), self._commands)
        if word in self._commands:
            self._commands[word][1](rest.strip())
        elif word in prompts:
            self._send_prompt(prompts[word], rest)
        else:
            close = get_close_matches(word, [*self._commands, *prompts], n=1)
            meant = f"did you mean {close[0]}? " if close else ""
            self._screen.note(f"unknown command {word!r}; {meant}/help lists the commands")

    def _send_prompt(self, prompt: Prompt, rest: str) -> None:
        """Send a server's prompt; asks for missing required arguments."""
        try:
            arguments = ask_for_arguments(prompt, shlex.split(rest))
        except (Usage, ValueError, OSError) as error:
            self._screen.note(str(error))
        except EOFError:
            self._screen.note("\nnothing was sent")
        else:
            self._run_turn(lambda: self._conversation.send_prompt(prompt, arguments))

    def _run_turn(self, turn: Callable[[], None]) -> None:
        """Run a turn; an error does not end the chat."""
        try:
            turn()
        except KeyboardInterrupt:
            self._screen.note("stopped; this turn is forgotten, but what tools did is not undone")
        except BrokenPipeError:
            raise  # stdout is closed
        except Exception as error:  # top of a turn: the user decides how to continue
            report(error, as_json=False)
        self._sign_in.offer()

    def _login(self, rest: str) -> None:
        """As `toolbus login`: the name of a server, and `--scopes 'A B'`."""
        waiting = waiting_for_sign_in(self._bus)
        try:
            words = " ".join(shlex.split(rest)).split()
        except ValueError:  # an unclosed quote
            words = []
        alias, *scopes = words or (waiting if len(waiting) == 1 else [""])
        if alias:
            self._sign_in.run(alias, [scope for scope in scopes if scope != "--scopes"])
        else:
            names = f"; waiting for it: {', '.join(waiting)}" if waiting else ""
            self._screen.note(f"/login SERVER: name the server{names}")

    def _tools(self, rest: str) -> None:
        for alias, status in self._bus.servers.items():
            print_server(
                self._stderr_screen, alias, status, [s for s in self._bus.catalog if s.origin.server == alias]
            )

    def _servers(self, rest: str) -> None:
        for alias, status in self._bus.servers.items():
            print_server(self._stderr_screen, alias, status, [])

    def _model_command(self, rest: str) -> None:
        if not rest:
            self._screen.note(f"{self._model}; switch with /model NAME")
            return
        try:
            self._change_model(rest)
        except ToolbusError as error:
            report(error, as_json=False)
            return
        self._model = display_name(rest)
        self._screen.note(f"switched to {self._model}")

    def _clear(self, rest: str) -> None:
        self._conversation.agent.clear()
        self._screen.note("conversation cleared; what tools did is not undone")

    def _named_file(self, command: str, rest: str) -> Path | None:
        try:
            words = shlex.split(rest)
        except ValueError:  # an unclosed quote
            words = []
        if len(words) == 1:
            return here(Path(os.path.expanduser(words[0])))
        self._screen.note(f"{command} FILE: pass one file name, in quotes if it has spaces")
        return None

    def _load(self, rest: str) -> None:
        path = self._named_file("/load", rest)
        if path is None:
            return
        try:
            self._conversation.agent.load(path)
        except OSError as error:
            self._screen.note(f"not loaded: {error.strerror or error}: {str(path)!r}")
        except ValueError:
            self._screen.note(f"not loaded: {str(path)!r} is not a saved conversation; /save writes one")
        else:
            self._own_files.add(path)
            count = counted(len(self._conversation.agent.history), "message")
            self._screen.note(f"loaded {count} from {path}")

    def _save(self, rest: str) -> None:
        path = self._named_file("/save", rest)
        if path is None:
            return
        if path.exists() and path not in self._own_files:
            self._screen.note(f"{str(path)!r} already exists; pass another file")
            return
        try:
            self._conversation.agent.save(path)
        except OSError as error:
            self._screen.note(f"not saved: {error.strerror or error}: {str(path)!r}")
            return
        self._own_files.add(path)
        self._screen.note(f"saved as {path}")

    def _help(self, rest: str) -> None:
        for name, (about, _) in self._commands.items():
            self._screen.note(f"  {name:9} {about}")
        for line in help_lines(by_command(self._bus.prompts(), self._commands)):
            self._screen.note(f"  {line}")
        self._screen.note("Ctrl-C stops a turn. A line that starts with a space is never a command.")

    def _quit(self, rest: str) -> None:
        raise Quit


def by_command(prompts: Iterable[Prompt], taken: Collection[str]) -> dict[str, Prompt]:
    """The prompts by command, short names first."""
    known = list(prompts)
    counts = Counter(prompt.name for prompt in known)
    short = {f"/{p.name}": p for p in known if counts[p.name] == 1 and f"/{p.name}" not in taken}
    return short | {f"/{prompt.server}/{prompt.name}": prompt for prompt in known}


def ask_for_arguments(prompt: Prompt, words: Sequence[str]) -> dict[str, str]:
    """The typed arguments; asks for missing required ones. Raises `Usage`, or EOFError on Ctrl-D."""
    given = texts(words)
    known = [argument.name for argument in prompt.arguments]
    for argument in prompt.arguments:
        # Do not ask if the line is invalid anyway.
        if argument.required and argument.name not in given and all(name in known for name in given):
            about = " ".join(argument.description.split())
            hint = one_line(f"{argument.name} ({about})" if about else argument.name)
            given[argument.name] = [ask(f"{hint}: ").strip()]
    return validated_arguments(prompt, given)


def help_lines(commands: Mapping[str, Prompt]) -> Iterator[str]:
    """One line per prompt: its command and description."""
    listed: set[tuple[str, str]] = set()
    for command, prompt in commands.items():
        if (prompt.server, prompt.name) in listed:
            continue
        listed.add((prompt.server, prompt.name))
        names = [f"{a.name}=" if a.required else f"[{a.name}=]" for a in prompt.arguments]
        about = " ".join((prompt.description or prompt.title or "").split())
        yield one_line(f"{' '.join([command, *names])}  {about}".rstrip())
