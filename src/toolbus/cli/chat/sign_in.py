"""Sign in to servers during a chat: when it starts, after a turn that needed it, or with `/login`."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from toolbus.cli.chat.background import BackgroundLoop
from toolbus.cli.chat.keyboard import Keyboard
from toolbus.cli.errors import report
from toolbus.cli.login_prompt import LoginPrompt
from toolbus.cli.output.screen import Screen
from toolbus.cli.session import selected_servers
from toolbus.cli.sign_in import (
    LoginOptions,
    check_sign_in,
    connect_signed_in,
    needed_scopes,
    sign_in,
    signed_in_line,
    waiting_for_sign_in,
)
from toolbus.config import BusConfig
from toolbus.core.operation.events import CallEnded, Event
from toolbus.core.text.display import counted
from toolbus.core.values.errors import ToolbusError
from toolbus.state.tokens.tokens import Tokens

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus

NO = ("n", "no")


class FailedCalls:
    """Notices calls that failed because somebody has to sign in."""

    def __init__(self) -> None:
        self._scopes: dict[str, tuple[str, ...]] = {}

    def on_event(self, event: Event) -> None:
        """In the thread of the bus."""
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
        keyboard: Keyboard | None,
        loop: BackgroundLoop,
        bus: "Toolbus",
        config: BusConfig,
        tokens: Tokens,
        failed: FailedCalls,
    ) -> None:
        self._screen = screen
        self._keyboard = keyboard
        self._loop = loop
        self._bus = bus
        self._config = config
        self._tokens = tokens
        self._failed = failed
        self._offered: set[str] = set()
        """Servers that the user was asked about, since they last worked."""

    def offer(self) -> None:
        """Ask whether to sign in to the servers that wait for it, once each; nothing without a keyboard."""
        waiting = dict.fromkeys(waiting_for_sign_in(self._bus), ()) | self._failed.take()
        self._offered &= set(waiting)
        for alias, scopes in waiting.items():
            if self._keyboard is None or alias in self._offered:
                continue
            self._offered.add(alias)
            if self._wants_to(alias, self._keyboard):
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

    def _wants_to(self, alias: str, keyboard: Keyboard) -> bool:
        try:
            answer = keyboard.ask(f"server {alias!r} needs you to sign in; sign in now? [Y/n]: ")
        except (EOFError, KeyboardInterrupt):
            self._screen.note("")
            return False
        return answer.strip().lower() not in NO
