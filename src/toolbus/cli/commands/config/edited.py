"""The config that a command edits, what it prints of that, and its arguments."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolbus.cli.command import CommandResult, Invocation
from toolbus.cli.errors import Usage
from toolbus.cli.options import suggested
from toolbus.cli.output.screen import Screen, picked, short_path, visible
from toolbus.config import find_config
from toolbus.config.editing.edit import new_document
from toolbus.config.editing.edited import OAUTH, EditedFile
from toolbus.config.editing.yaml_json import NotEditable
from toolbus.config.find import DOTENV, named_config
from toolbus.config.secrets.literals import Secret
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class NewServer:
    """The arguments of `toolbus add`."""

    target: Sequence[str]
    """A URL, or a command and its arguments."""
    env: Sequence[str]
    headers: Sequence[str]
    auth: str | None
    """`oauth`, or a token."""
    transport: str | None
    cwd: str | None


def edited_file(own: Invocation) -> EditedFile:
    """The config in use, or a new file."""
    named = own.settings.config or named_config()
    path = named
    if path is None:
        try:
            path = find_config()
        except ConfigError:
            path = Path("toolbus.yaml")
    return EditedFile.read(Path(short_path(path)), is_named=named is not None)


def written(
    own: Invocation, edited: EditedFile, name: str, entry: Mapping[str, JSON], secrets: Sequence[Secret]
) -> CommandResult:
    """Write a new server and its secrets."""
    screen = own.screen
    trusted = save_edited(screen, edited, text_with_server(edited, name, entry), secrets)
    use = "login" if entry.get("auth") == OAUTH else "tools"
    step = f"toolbus {use} {name}" if trusted or edited.is_named else "toolbus trust"

    def lines() -> None:
        screen.line(visible(f"added {name} to {edited.path}; next: {suggested(step)}"))
        for secret in secrets:
            screen.note(f"{secret.key} is a secret; moved it to {DOTENV}, replaced by ${{{secret.name}}}")
        if secrets and (edited.path.parent / ".git").exists():
            screen.note(f"add {DOTENV} to .gitignore to keep it out of version control")

    document = {
        **edit_facts(edited, name),
        "entry": entry,
        "secrets": [picked(secret, "key name") for secret in secrets],
        "trusted": trusted,
    }
    return CommandResult(document, lines)


def edit_facts(edited: EditedFile, name: str) -> dict[str, JSON]:
    return {"file": str(edited.path), "server": name}


def given_pairs(given: Sequence[str], option: str, separator: str) -> dict[str, JSON]:
    pairs: dict[str, JSON] = {}
    for text in given:
        key, *value = re.split(separator, text, maxsplit=1)
        if not key or not value:
            raise Usage(f"{option} takes KEY=VALUE, not {text.partition('=')[0]!r}")
        pairs[key] = value[0]
    return pairs


def text_with_server(edited: EditedFile, name: str, entry: Mapping[str, JSON]) -> str:
    """The file's text with the server; if it cannot be edited, `Usage` shows what to paste."""
    try:
        return edited.with_server(name, entry)
    except NotEditable as error:
        shown = new_document(edited.path, {name: entry}).splitlines()
        raise Usage(f"{edited.path} {error.problem}:", tuple(shown)) from None


def save_edited(screen: Screen, edited: EditedFile, after: str, secrets: Sequence[Secret] = ()) -> bool:
    """Write the file and the secrets; return whether the file is trusted afterwards."""
    if (problem := edited.problem_with(after)) is not None:
        raise Usage(f"the change would make {edited.path} invalid: {problem}")
    if distrust := edited.save(after, secrets):
        screen.note(distrust)
    return distrust is None
