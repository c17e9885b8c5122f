"""Sign in to servers during a chat: when it starts, after a turn that needed it, or with `/login`."""

import asyncio
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
    sign_in,
    signed_in_line,
    waiting_for_sign_in,
)
from toolbus.config import BusConfig
from toolbus.core.display import counted
from toolbus.core.errors import ToolbusError
from toolbus.state.tokens.tokens import Tokens

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus

NO = ("n", "no")


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
    ) -> None:
        self._screen = screen
        self._keyboard = keyboard
        self._loop = loop
        self._bus = bus
        self._config = config
        self._tokens = tokens
        self._offered: set[str] = set()
        """Servers that the user was asked about, since they last worked."""

    def offer(self) -> None:
        """Ask whether to sign in to the servers that wait for it, once each; nothing without a keyboard."""
        waiting = waiting_for_sign_in(self._bus)
        self._offered &= set(waiting)
        for alias in waiting:
            if self._keyboard is None or alias in self._offered:
                continue
            self._offered.add(alias)
            if self._wants_to(alias, self._keyboard):
                self.run(alias)
            else:
                self._screen.note(f"/login {alias} signs in later")

    def run(self, alias: str) -> None:
        """Sign in, and connect; an error is printed."""
        try:
            selected_servers(self._config, [alias])
            check_sign_in(self._config, alias)
            with self._screen.spinner(f"contacting {alias}"):
                login = asyncio.run(
                    sign_in(self._config, alias, self._tokens, LoginPrompt(self._screen), LoginOptions())
                )
            self._screen.note(signed_in_line(alias, login, self._tokens.place))
            with self._screen.spinner(f"starting {alias}"):
                self._loop.run(connect_signed_in(self._bus, alias))
        except KeyboardInterrupt:
            self._screen.note("not signed in")
        except ToolbusError as error:
            report(error, as_json=False)
        else:
            tools = sum(spec.origin.server == alias for spec in self._bus.catalog)
            self._screen.note(f"{alias} is ready with {counted(tools, 'tool')}")

    def _wants_to(self, alias: str, keyboard: Keyboard) -> bool:
        try:
            answer = keyboard.ask(f"server {alias!r} needs you to sign in; sign in now? [Y/n]: ")
        except (EOFError, KeyboardInterrupt):
            self._screen.note("")
            return False
        return answer.strip().lower() not in NO
