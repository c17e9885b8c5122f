"""Trust in a config: the prompt that commands show before they use one they found, and its answer."""

import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from toolbus.cli.errors import FAILED, WRONG_USAGE
from toolbus.cli.input.ask import ask, can_ask
from toolbus.cli.options import SharedOptions
from toolbus.cli.output.review import print_review
from toolbus.cli.output.screen import Screen, styled
from toolbus.config.trust import Agree, Candidate, NotKept, save_trust, trust_content
from toolbus.core.text.text import exact
from toolbus.core.values.errors import ConfigNotTrusted, ToolbusError

YES = ("y", "yes")


class NotAgreed(ToolbusError):
    """The user did not trust the config."""

    def __init__(self, file: Path) -> None:
        again = "run 'toolbus trust' to be asked again, or pass --config FILE"
        super().__init__(f"{file} is not trusted; nothing was run; {again}")


def trust_prompt(settings: SharedOptions) -> Agree:
    """A callback that asks on the terminal; raises without one and with `--json`."""

    def agree(found: Candidate, reason: str) -> None:
        if settings.json or not can_ask():
            raise ConfigNotTrusted(str(found.file), reason)
        # verbose=0: the command's own screen already shows the log.
        screen = Screen(replace(settings, verbose=0))
        ask_for_trust(screen, found, reason)
        try:
            save_trust(found)
        except NotKept as error:
            screen.note(str(error))

    return agree


def trust_written(screen: Screen, path: Path, content: bytes) -> bool:
    """Trust a file to which this command wrote the content; return whether it is trusted now."""
    problem = trust_content(path, content)
    if problem is not None:
        screen.note(problem)
    return problem is None


def ask_for_trust(screen: Screen, found: Candidate, reason: str) -> None:
    """Show the config and ask; raises `NotAgreed` unless the user says yes."""
    screen.err.print(styled((exact(f"{found.file} {reason}. It would use:"), "bold yellow")))
    print_review(screen.err, found)
    if not confirm("Do you trust it? [y/N]: "):
        raise NotAgreed(found.file)


def confirm(question: str) -> bool:
    """Ask a question on the terminal; whether the answer is yes."""
    try:
        with _default_signals():
            typed = ask(question)
    except EOFError:
        print(file=sys.stderr)
        typed = ""
    return typed.strip().lower() in YES


def code_if_unwritten(screen: Screen) -> int:
    """The exit code of a command that needs a yes: 1 if the answer was no, 2 if nobody could be asked."""
    return FAILED if can_ask() and not screen.as_json else WRONG_USAGE


@contextmanager
def _default_signals() -> Generator[None]:
    """Restore the default signal handlers: an event loop cannot run its own while we block."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
