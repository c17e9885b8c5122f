"""`toolbus script save`: keep a script that worked as a tool of the config."""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from toolbus.bus.inner import tenant_of
from toolbus.cli.command import CommandResult, Invocation, config_command
from toolbus.cli.commands.config.edited import edited_file, given_pairs, save_edited
from toolbus.cli.errors import FAILED, Usage
from toolbus.cli.input.ask import can_ask
from toolbus.cli.input.trust import confirm
from toolbus.cli.options import suggested
from toolbus.cli.output.screen import Screen, picked, visible
from toolbus.code.kept import KeptScript, KeptScripts
from toolbus.code.literals import NotReplaced, with_input
from toolbus.config.editing.edit import entry_text, value_at, with_entry
from toolbus.config.editing.edited import EditedFile
from toolbus.config.editing.save import save_in_project
from toolbus.config.editing.yaml_json import NotEditable
from toolbus.config.hosts.read import document_in
from toolbus.config.location import is_mapping
from toolbus.config.script_tools.entry import SCRIPTS, ScriptEntry, check_names
from toolbus.config.script_tools.files import ScriptCode
from toolbus.core.text.display import counted, shortened
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON

_SHOWN = 60
"""Characters of a script in a list."""


@config_command
async def save(
    own: Invocation,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A name for the tool.")] = None,
    id: Annotated[  # noqa: A002  the name of the option
        str | None, typer.Option("--id", metavar="ID", help="The script, as listed; default: the newest.")
    ] = None,
    input: Annotated[  # noqa: A002  the name of the option
        list[str] | None,
        typer.Option(
            "--input",
            metavar="NAME=LITERAL",
            help="Make a literal of the script an argument of the tool; repeatable.",
        ),
    ] = None,
    description: Annotated[
        str | None, typer.Option("--description", metavar="TEXT", help="The tool's description for models.")
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Replace a tool or file of that name without asking.")
    ] = False,
) -> CommandResult:
    """Keep a script as a tool; without NAME, list scripts.

    The newest scripts that called tools and ended well can be saved. Writes NAME.py next to the config, and
    its entry under tools. Nothing is written if the type check finds a mistake.
    """
    kept = _kept(own)
    if name is None:
        if id or input or description or yes:
            raise Usage("name the tool to save the script as: toolbus script save NAME")
        return _list(own.screen, kept)
    saved = _saved(name, _chosen(kept, id), input or (), description)
    edited = edited_file(own)
    _agree(own.screen, edited, saved, yes)
    if (problem := await _problem(own, saved)) is not None:
        document: JSON = {"ok": False, "name": name, "problem": problem}
        return CommandResult(document, lambda: own.screen.note(f"{problem}\nNothing was written."), FAILED)
    return _written(own, edited, saved)


# The scripts


def _kept(own: Invocation) -> list[KeptScript]:
    file = own.untrusted_config.file
    try:
        return [] if file is None else KeptScripts(file).all()
    except (OSError, ValueError) as error:
        raise Usage(f"the kept scripts cannot be read: {error}") from None


def _list(screen: Screen, kept: Sequence[KeptScript]) -> CommandResult:
    def lines() -> None:
        if not kept:
            screen.note("no scripts yet; run one that calls tools: toolbus script FILE")
            return
        rows = [(one.id, one.date, ", ".join(one.tools), _first_line(one.text)) for one in kept]
        screen.table(("id", "ended (UTC)", "tools", "script"), [tuple(map(visible, row)) for row in rows])
        screen.note(f"next: {suggested('toolbus script save NAME --id ID')}")

    facts = [{**picked(one, "id at user face input text"), "tools": [*one.tools]} for one in kept]
    return CommandResult({"scripts": facts}, lines)


def _first_line(text: str) -> str:
    return shortened(next((line.strip() for line in text.splitlines() if line.strip()), ""), _SHOWN)


def _chosen(kept: Sequence[KeptScript], id_: str | None) -> KeptScript:
    if not kept:
        raise Usage("no script is kept for this config; run one first: toolbus script FILE")
    found = kept if id_ is None else [one for one in kept if one.id == id_]
    if not found:
        raise Usage(f"no kept script has the id {id_!r}; list them: toolbus script save")
    return found[0]


# The tool


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedScript:
    """A script with the entry that makes it a tool."""

    name: str
    id: str
    text: str
    entry: dict[str, JSON]

    @property
    def file(self) -> str:
        return f"{self.name}.py"

    @property
    def code(self) -> ScriptCode:
        """The script as the config will have it."""
        return ScriptCode(self.name, ScriptEntry.model_validate(self.entry), self.text)


def _saved(name: str, script: KeptScript, inputs: Sequence[str], description: str | None) -> SavedScript:
    try:
        check_names({name: ScriptEntry(script="x", description="x")})
    except ConfigError as error:
        raise Usage(f"{name!r} {error.problem}") from None
    form = dict(script.input)
    for variable, literal in given_pairs(inputs, "--input", "=").items():
        try:
            text, form[variable] = with_input(script.text, variable, literal)
        except NotReplaced as error:
            raise Usage(f"--input {variable}: {error}") from None
        script = replace(script, text=text)
    entry: dict[str, JSON] = {"script": f"{name}.py", "description": description or _about(script)}
    entry |= {"input": form} if form else {}
    return SavedScript(name=name, id=script.id, text=script.text, entry={**entry, "uses": [*script.tools]})


def _about(script: KeptScript) -> str:
    """The first line of the docstring or comment of a script, or the tools that it calls."""
    first = (ast.get_docstring(ast.parse(script.text)) or "").partition("\n")[0]
    comment = script.text.lstrip().partition("\n")[0]
    if not first and comment.startswith("#"):
        first = comment.strip("# ")
    return first or f"Calls {', '.join(script.tools)}."


def _agree(screen: Screen, edited: EditedFile, saved: SavedScript, yes: bool) -> None:
    """Raise `Usage` unless there is nothing to replace, or the user agrees to it."""
    place = edited.path.parent / saved.file
    known = [f"the tool {saved.name!r}"] if saved.name in _entries(edited) else []
    known += [str(place)] if place.exists() else []
    if not known or yes:
        return
    what = " and ".join(known)
    if screen.as_json or not can_ask() or not confirm(f"Replace {what}? [y/N]: "):
        raise Usage(f"{what} would be replaced; choose another name, or pass --yes")


def _entries(edited: EditedFile) -> Mapping[str, JSON]:
    if edited.is_blank:
        return {}
    entries = value_at(document_in(edited.text.encode(), edited.path), (SCRIPTS,))
    return entries if is_mapping(entries) else {}


async def _problem(own: Invocation, saved: SavedScript) -> str | None:
    """The mistake that the type check finds in the tool."""
    from toolbus.bus.script_tools import examine

    servers = {tool.partition("/")[0] for tool in saved.entry["uses"]}
    async with own.bus([alias for alias in own.selected() if alias in servers]) as bus:
        return (await examine(tenant_of(bus), saved.code))[0]


def _written(own: Invocation, edited: EditedFile, saved: SavedScript) -> CommandResult:
    """Write the script and its entry."""
    path = edited.path.parent / saved.file
    try:
        after = with_entry(edited.text, edited.path, (SCRIPTS,), saved.name, saved.entry)
    except NotEditable as error:
        shown = entry_text(edited.path, (SCRIPTS,), saved.name, saved.entry).splitlines()
        raise Usage(f"{edited.path} {error.problem}:", tuple(shown)) from None
    if (problem := edited.problem_with(after)) is not None:
        raise Usage(f"the change would make {edited.path} invalid: {problem}")
    save_in_project(path, saved.text.encode())
    trusted = save_edited(own.screen, edited, after)
    step = _next_step(edited, saved, trusted)

    def lines() -> None:
        own.screen.line(visible(f"saved {saved.name} in {path} and {edited.path}; next: {suggested(step)}"))
        own.screen.note(
            f"its steps may call {counted(len(saved.entry['uses']), 'tool')}: "
            f"{', '.join(saved.entry['uses'])}"
        )

    facts = {"ok": True, "name": saved.name, "id": saved.id, "file": str(edited.path), "script": str(path)}
    return CommandResult({**facts, "entry": saved.entry, "trusted": trusted}, lines)


def _next_step(edited: EditedFile, saved: SavedScript, trusted: bool) -> str:
    if not trusted and not edited.is_named:
        return "toolbus trust"
    if Path(edited.path.parent, "toolbus.lock").exists():
        return f"toolbus lock approve {SCRIPTS}/{saved.name}"
    return " ".join(["toolbus call", saved.name, *(f"{argument}=..." for argument in saved.code.entry.input)])
