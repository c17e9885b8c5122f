"""`toolbus trust`: review a config, and trust it or not."""

import os
from pathlib import Path
from typing import Annotated

import typer

from toolbus.cli.command import CommandResult, Invocation, command
from toolbus.cli.errors import FAILED, Usage
from toolbus.cli.input.ask import can_ask
from toolbus.cli.input.trust import ask_for_trust
from toolbus.cli.output.review import audit_facts, hook_facts, print_review, rule_json
from toolbus.cli.output.screen import short_path
from toolbus.config import find_config
from toolbus.config.review import review, secrets_of_bus
from toolbus.config.script_tools.files import script_facts
from toolbus.config.settings.search import Embeddings
from toolbus.config.trust import Candidate, NotKept, candidate, distrust, forget, save_trust
from toolbus.core.values.errors import ConfigNotTrusted
from toolbus.core.values.records import JSON


@command
def trust(
    own: Invocation,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Config file; default: the one toolbus finds.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Trust it without asking.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Stop trusting it.")] = False,
) -> CommandResult:
    """Review a config and allow toolbus to use it."""
    if yes and remove:
        raise Usage("--yes and --remove cannot be combined; keep one")
    screen = own.screen
    path = Path(os.path.expanduser(file or own.settings.config or find_config()))
    if remove:
        return _removed(path)
    found = candidate(path)
    reason = distrust(found)
    if reason is not None and not yes and not screen.as_json:
        if not can_ask():
            print_review(screen.out, found)
            raise ConfigNotTrusted(short_path(found.file), reason, option="--yes")
        ask_for_trust(screen, found, reason)
    trusted = reason is None or yes
    if reason is not None and (yes or not screen.as_json):
        save_trust(found)
    shown = short_path(found.file)
    line = f"{shown} is already trusted" if reason is None else f"trusted {shown}"
    return CommandResult(
        lambda: _reviewed(found, trusted), line, 0 if trusted or not screen.as_json else FAILED
    )


def _removed(path: Path) -> CommandResult:
    try:
        known = forget(path)
    except OSError as error:
        raise NotKept(error) from error
    document = {"file": str(path.absolute()), "trusted": False}
    return CommandResult(document, f"{short_path(path)} is {'no longer' if known else 'not'} trusted")


def _reviewed(found: Candidate, trusted: bool) -> JSON:
    config = found.config
    facts: dict[str, JSON] = {"servers": review(config), "roots": list(config.roots)}
    facts |= {"tokens": config.tokens} if config.tokens != "auto" else {}
    facts |= {"policy": list(map(rule_json, config.policy))} if config.policy else {}
    facts |= {"secrets": secrets} if (secrets := secrets_of_bus(config)) else {}
    if isinstance(encoder := config.search.encoder, Embeddings):
        facts |= {"search": encoder.model_dump(mode="json")}
    facts |= {"hooks": hooks} if (hooks := hook_facts(found)) else {}
    facts |= {"tools": scripts} if (scripts := script_facts(config)) else {}
    facts |= {"audit": trail} if (trail := audit_facts(config)) else {}
    if config.serve is not None:
        facts |= {"serve": config.serve.model_dump(mode="json", exclude_defaults=True)}
    return {"file": str(found.file), "trusted": trusted, **facts}
