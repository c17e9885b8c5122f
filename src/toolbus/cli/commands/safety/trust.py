"""`toolbus trust`, and the prompt that other commands show before they use a config they found."""

import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from rich.text import Text

from toolbus.cli.errors import FAILED, Usage
from toolbus.cli.input.ask import ask, can_ask
from toolbus.cli.options import Settings
from toolbus.cli.output.review import audit_facts, print_review, review, secrets_of_bus
from toolbus.cli.output.rule_words import rule_json
from toolbus.cli.output.screen import Screen, exact, short_path, visible
from toolbus.config import find_config
from toolbus.config.settings.search import Embeddings
from toolbus.config.trust import Agree, Candidate, accept, candidate, distrust, forget
from toolbus.core.values.errors import ConfigError, ConfigNotTrusted, ToolbusError

YES = ("y", "yes")


class NotAgreed(ToolbusError):
    """The user did not trust the config."""

    def __init__(self, file: Path) -> None:
        again = "run 'toolbus trust' to be asked again, or pass --config FILE"
        super().__init__(f"{file} is not trusted; nothing was run; {again}")


class NotKept(ToolbusError):
    """The decision could not be saved in the user's state folder."""

    def __init__(self, error: OSError) -> None:
        what = f"{error.filename or 'the state folder'}: {error.strerror or type(error).__name__}"
        super().__init__(f"cannot save that you trust it: {what}; fix that, or pass the file with --config")


def run(settings: Settings, file: Path | None, *, yes: bool, remove: bool) -> int:
    """Show the config and ask; or trust it at once, or stop trusting it."""
    if yes and remove:
        raise Usage("--yes and --remove cannot be combined; keep one")
    screen = Screen(settings)
    path = Path(os.path.expanduser(file or settings.config or find_config()))
    if remove:
        return _remove(screen, path)
    found = candidate(path)
    reason = distrust(found)
    if reason is not None and yes:
        _save_trust(found)
    if screen.as_json:
        trusted = reason is None or yes
        facts = {"servers": review(found), "roots": list(found.config.roots)}
        facts |= {"tokens": found.config.tokens} if found.config.tokens != "auto" else {}
        facts |= {"policy": list(map(rule_json, found.config.policy))} if found.config.policy else {}
        facts |= {"secrets": secrets} if (secrets := secrets_of_bus(found)) else {}
        if isinstance(encoder := found.config.search.encoder, Embeddings):
            facts |= {"search": encoder.model_dump(mode="json")}
        facts |= {"audit": trail} if (trail := audit_facts(found.config)) else {}
        if found.config.serve is not None:
            facts |= {"serve": found.config.serve.model_dump(mode="json", exclude_defaults=True)}
        screen.json({"file": str(found.file), "trusted": trusted, **facts})
        return 0 if trusted else FAILED
    if reason is None:
        screen.print(Text(visible(f"{short_path(found.file)} is already trusted")))
        return 0
    if not yes:
        if not can_ask():
            _print_and_refuse(screen, found, reason)
        _ask_for_trust(screen, found, reason)
        _save_trust(found)
    screen.print(Text(visible(f"trusted {short_path(found.file)}")))
    return 0


def trust_prompt(settings: Settings) -> Agree:
    """A callback that asks on the terminal; raises without one and with `--json`."""

    def agree(found: Candidate, reason: str) -> None:
        if settings.json or not can_ask():
            raise ConfigNotTrusted(str(found.file), reason)
        # verbose=0: the command's own screen already shows the log.
        screen = Screen(replace(settings, verbose=0))
        _ask_for_trust(screen, found, reason)
        try:
            _save_trust(found)
        except NotKept as error:
            screen.note(str(error))

    return agree


def trust_written(screen: Screen, path: Path, content: bytes) -> bool:
    """Trust a file to which this command wrote the content; return whether it is trusted now."""
    try:
        found = candidate(path)
        if not found.has(content):
            screen.note(f"{short_path(found.file)} was changed meanwhile, so it is not trusted")
            return False
        _save_trust(found)
    except (ConfigError, NotKept) as error:
        screen.note(str(error))
        return False
    return True


def is_trusted(path: Path) -> bool:
    """Whether the user trusts the config with its current content."""
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
        screen.print(Text(visible(f"{short_path(path)} is {'no longer' if known else 'not'} trusted")))
    return 0


def _save_trust(found: Candidate) -> None:
    try:
        accept(found)
    except OSError as error:
        raise NotKept(error) from error


def _print_and_refuse(screen: Screen, found: Candidate, reason: str) -> NoReturn:
    print_review(screen.out, found)
    raise ConfigNotTrusted(short_path(found.file), reason, option="--yes")


def _ask_for_trust(screen: Screen, found: Candidate, reason: str) -> None:
    """Show the config and ask; raises `NotAgreed` unless the user says yes."""
    screen.err.print(Text(exact(f"{found.file} {reason}. It would use:"), style="bold yellow"))
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
