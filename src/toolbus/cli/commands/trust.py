"""`toolbus trust`, and the question that every command asks before it uses a config that was only found."""

import signal
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from rich.text import Text

from toolbus.cli.input.typed import answer, can_ask
from toolbus.cli.options import Settings
from toolbus.cli.outcome import FAILED, Usage
from toolbus.cli.output.review import review, show
from toolbus.cli.output.screen import Screen, exact, near, visible
from toolbus.config import find_config
from toolbus.config.trust import Agree, Candidate, accept, candidate, distrust, forget
from toolbus.core.errors import ConfigError, ConfigNotTrusted, ToolbusError

YES = ("y", "yes")


class NotAgreed(ToolbusError):
    """The user does not want the config."""

    def __init__(self, file: Path) -> None:
        again = "run 'toolbus trust' to be asked again, or pass --config FILE"
        super().__init__(f"{file} is not trusted; nothing was run; {again}")


class NotKept(ToolbusError):
    """The agreement could not be written to the user's state folder."""

    def __init__(self, error: OSError) -> None:
        what = f"{error.filename or 'the state folder'}: {error.strerror or type(error).__name__}"
        super().__init__(f"cannot save that you trust it: {what}; fix that, or pass the file with --config")


def run(settings: Settings, file: Path | None, *, yes: bool, remove: bool) -> int:
    """Show the config, and ask; or say yes at once, or take it back."""
    if yes and remove:
        raise Usage("--yes and --remove cannot be combined; keep one")
    screen = Screen(settings)
    path = (file or settings.config or find_config()).expanduser()
    if remove:
        return _remove(screen, path)
    found = candidate(path)
    reason = distrust(found)
    if reason is not None and yes:
        _keep(found)
    if screen.as_json:
        trusted = reason is None or yes
        facts = {"servers": review(found), "roots": list(found.config.roots)}
        screen.json({"file": str(found.file), "trusted": trusted, **facts})
        return 0 if trusted else FAILED
    if reason is None:
        screen.print(Text(visible(f"{near(found.file)} is already trusted")))
        return 0
    if not yes:
        if not can_ask():
            _only_show(screen, found, reason)
        _ask(screen, found, reason)
        _keep(found)
    screen.print(Text(visible(f"trusted {near(found.file)}")))
    return 0


def agreeing(settings: Settings) -> Agree:
    """Ask the user on a terminal; elsewhere, and with `--json`, nobody is asked and nothing is used."""

    def agree(found: Candidate, reason: str) -> None:
        if settings.json or not can_ask():
            raise ConfigNotTrusted(str(found.file), reason)
        # The command has a screen that shows the log already.
        screen = Screen(replace(settings, verbose=0))
        _ask(screen, found, reason)
        try:
            _keep(found)
        except NotKept as error:
            screen.note(str(error))

    return agree


def trust_own(screen: Screen, path: Path) -> bool:
    """Trust a file that the user has just had written; whether it is trusted now."""
    try:
        _keep(candidate(path))
    except (ConfigError, NotKept) as error:
        screen.note(str(error))
        return False
    return True


def is_trusted(path: Path) -> bool:
    """Whether the user agreed to the config at that path as it is now."""
    try:
        return distrust(candidate(path)) is None
    except ConfigError:
        return False


def _remove(screen: Screen, path: Path) -> int:
    try:
        known = forget(path)
    except OSError as error:
        raise NotKept(error) from error
    if screen.as_json:
        screen.json({"file": str(path.absolute()), "trusted": False})
    else:
        screen.print(Text(visible(f"{near(path)} is {'no longer' if known else 'not'} trusted")))
    return 0


def _keep(found: Candidate) -> None:
    try:
        accept(found)
    except OSError as error:
        raise NotKept(error) from error


def _only_show(screen: Screen, found: Candidate, reason: str) -> NoReturn:
    show(screen.out, review(found), found.config.roots)
    raise ConfigNotTrusted(near(found.file), reason, option="--yes")


def _ask(screen: Screen, found: Candidate, reason: str) -> None:
    """Come back if the user agrees."""
    screen.err.print(Text(exact(f"{found.file} {reason}. It would use:"), style="bold yellow"))
    show(screen.err, review(found), found.config.roots)
    try:
        with _usual_signals():
            typed = answer("Do you trust it? [y/N]: ")
    except EOFError:
        screen.note("")
        typed = ""
    if typed.strip().lower() not in YES:
        raise NotAgreed(found.file)


@contextmanager
def _usual_signals() -> Generator[None]:
    """Signals end the command at once, also on a loop, which could not act on them while we wait."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
