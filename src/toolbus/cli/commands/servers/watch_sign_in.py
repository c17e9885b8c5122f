"""Sign in while servers are watched: a key stops the live table until that is done."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Protocol

from toolbus.cli.input.keys import keys_call
from toolbus.cli.login_prompt import LoginPrompt
from toolbus.cli.output.screen import Screen
from toolbus.cli.sign_in import (
    LoginOptions,
    connect_signed_in,
    sign_in,
    signed_in_line,
    waiting_for_sign_in,
)
from toolbus.config import BusConfig
from toolbus.core.values.errors import ToolbusError

if TYPE_CHECKING:
    from toolbus.bus.toolbus import Toolbus
    from toolbus.state.tokens.tokens import Tokens

KEY = "l"


class PausableView(Protocol):
    """What shows the servers meanwhile."""

    def paused(self) -> AbstractContextManager[object]:
        """Leave the terminal to somebody else until the block ends."""
        ...

    def add_line(self, who: str, what: str, style: str = "") -> None:
        """Show a line."""
        ...


class SignInKey:
    """Offers to sign in to the first server that needs it, while it is entered."""

    def __init__(
        self,
        screen: Screen,
        bus: "Toolbus",
        view: PausableView,
        current: Callable[[], tuple[BusConfig, "Tokens"]],
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._screen = screen
        self._bus = bus
        self._view = view
        self._current = current
        self._tasks = tasks
        self._keys = ExitStack()
        self._has_keys = False
        self._is_busy = False

    def __enter__(self) -> "SignInKey":
        self._listen()
        return self

    def __exit__(self, *error: object) -> None:
        self._keys.close()

    @property
    def offer(self) -> str:
        """What to show below the table; empty if nobody needs to sign in, or there is no keyboard."""
        needed = waiting_for_sign_in(self._bus)
        return f"{KEY}: sign in to {needed[0]}; " if needed and self._has_keys else ""

    def _listen(self) -> None:
        self._has_keys = self._keys.enter_context(keys_call(self._press))

    def _press(self, key: str) -> None:
        needed = waiting_for_sign_in(self._bus)
        if key.lower() == KEY and needed and not self._is_busy:
            self._is_busy = True
            self._tasks.create_task(self._sign_in(needed[0]))

    async def _sign_in(self, alias: str) -> None:
        self._keys.close()  # the prompt reads the keyboard now
        try:
            with self._view.paused():
                config, tokens = self._current()
                login = await sign_in(config, alias, tokens, LoginPrompt(self._screen), LoginOptions())
            self._view.add_line(alias, signed_in_line(alias, login, tokens.place), "green")
            await connect_signed_in(self._bus, alias)
        except ToolbusError as error:
            self._view.add_line(alias, str(error).removeprefix(f"server {alias!r}: "), "red")
        finally:
            self._is_busy = False
            self._listen()
