"""What a chat needs before its first word: a prompt or a terminal, a config, a model."""

import os
import sys
import warnings

from toolbus.cli.chat.models import Choice, chosen, keys_of
from toolbus.cli.chat.wanted import Wanted
from toolbus.cli.options import Settings
from toolbus.cli.outcome import Usage
from toolbus.cli.output.screen import Screen
from toolbus.cli.session import checked, configured


def run(settings: Settings, wanted: Wanted) -> int:
    """Chat; without a prompt, and on a terminal, until the person ends it."""
    if wanted.out is not None and wanted.out.exists() and not wanted.out.is_dir():
        raise Usage(f"--out {str(wanted.out)!r} is a file; name a folder")
    if wanted.prompt is None and settings.json and _is_terminal():
        raise Usage("--json needs a prompt; pass one, or pipe it in")
    screen, config = Screen(settings), configured(settings)
    checked(config, ())
    prompt = _whole(wanted.prompt)
    _hush(settings)
    with screen.moving("loading the agent"):
        # Here, and not above: no other command, and no mistake, waits for pydantic-ai.
        from toolbus.cli.chat.talk import talk
    with screen.moving("looking for a model"):
        keys = keys_of(config)
        model = chosen(wanted.model, keys)
    return talk(screen, config, wanted, Choice(model=model, keys=keys), prompt)


def _hush(settings: Settings) -> None:
    """What packages below say to programmers is not for whoever chats."""
    os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")
    if not (settings.verbose or settings.debug):
        warnings.simplefilter("ignore")


def _is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _whole(prompt: str | None) -> str | None:
    """The prompt, and below it what is piped in; None on a terminal without either."""
    if _is_terminal():
        if prompt is not None and not prompt.strip():
            raise Usage("the prompt is empty; write one")
        return prompt
    try:
        piped = "" if sys.stdin is None else sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise Usage("the piped text is not UTF-8; convert it") from None
    whole = "\n\n".join(part.strip("\r\n") for part in (prompt or "", piped) if part.strip())
    if not whole:
        raise Usage("no prompt; pass one, pipe text in, or run it on a terminal")
    return whole
