"""Ask the user on the terminal to approve a call.

The whole call is shown, as it will be sent, with everything written out that a terminal would obey or hide.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

from rich.text import Text

from toolbus.cli.input.ask import ask_async
from toolbus.cli.output.screen import Screen, escaped_json
from toolbus.core.text.text import exact
from toolbus.core.values.records import JSON

Choice: TypeAlias = Literal["once", "session", "chat", "always", "no", "never"]
EVERY: Sequence[Choice] = ("once", "session", "always", "no", "never")
"""The answers a person may give to a rule of the policy."""
ONE_CALL: Sequence[Choice] = ("once", "always", "no", "never")
"""The answers without the one that ends with the call."""
IN_CHAT: Sequence[Choice] = ("once", "chat", "no")
"""The answers a person may give to `--approve` of a chat."""
_WORDS: Mapping[Choice, str] = {
    "once": "[y]es once",
    "session": "[s]ession",
    "chat": "[a]lways in this chat",
    "always": "[a]lways until it changes",
    "no": "[n]o",
    "never": "ne[v]er",
}
_TYPED: Mapping[Choice, Sequence[str]] = {
    "once": ("y", "yes", "once"),
    "session": ("s", "session"),
    "chat": ("a", "always"),
    "always": ("a", "always"),
    "no": ("n", "no"),
    "never": ("v", "never"),
}


class CallToApprove(Protocol):
    """A call that waits for approval."""

    @property
    def name(self) -> str: ...

    @property
    def server(self) -> str | None: ...

    @property
    def arguments(self) -> Mapping[str, JSON]: ...

    @property
    def rule(self) -> str | None: ...

    @property
    def reason(self) -> str: ...


async def ask_approval(screen: Screen, call: CallToApprove, choices: Sequence[Choice]) -> Choice:
    """Show the call and ask until one of the choices is typed; `Interrupted` on Ctrl-C.

    Ctrl-D means no.
    """
    _show(screen, call)
    prompt = f"run it? {', '.join(_WORDS[choice] for choice in choices)}: "
    known: dict[str, Choice] = {typed: choice for choice in choices for typed in _TYPED[choice]}
    try:
        while True:
            answer = known.get((await ask_async(prompt)).strip().lower())
            if answer is not None:
                return answer
            *others, last = (_TYPED[choice][0] for choice in choices)
            screen.note(f"answer {', '.join(others)} or {last}")
    except EOFError:
        screen.note("")
        return "no"
    except asyncio.CancelledError:
        screen.note("\nthe call no longer waits for an answer")
        raise


def _show(screen: Screen, call: CallToApprove) -> None:
    whose = "" if call.server is None else f" of server {exact(call.server)}"
    screen.err.print(Text(f"{exact(call.name)}{whose}", style="bold yellow"))
    if call.rule is not None:
        because = f": {exact(call.reason)}" if call.reason else ""
        screen.err.print(Text(f"rule {call.rule} asks{because}"))
    screen.err.print(Text(escaped_json(dict(call.arguments), indent=2)))
