"""`toolbus import`: import servers from another program's config."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from pathlib import Path
from typing import Annotated

import typer

from toolbus.cli.command import CommandResult, Invocation, command
from toolbus.cli.completion import editor_names
from toolbus.cli.errors import Usage
from toolbus.cli.input.ask import can_ask
from toolbus.cli.input.trust import confirm, trust_written
from toolbus.cli.options import no_config
from toolbus.cli.output.screen import Screen, picked, visible
from toolbus.cli.terminal import working_folder
from toolbus.config.editing.edit import servers_in, with_servers
from toolbus.config.editing.save import save_in_project
from toolbus.config.editing.yaml_json import NotEditable, as_yaml
from toolbus.config.find import DOTENV
from toolbus.config.hosts.convert import ImportedServers, imported
from toolbus.config.hosts.editors import EDITORS, ImportFile, files_here
from toolbus.config.location import is_mapping
from toolbus.config.secrets.literals import Secret, add_secrets, env_values, referenced_names
from toolbus.config.trust import is_trusted
from toolbus.core.text.display import counted
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON

SET_IT = "set it in the environment or in .env (--yes --with-secrets copies it there)"


@dataclass(slots=True, kw_only=True)
class ImportPlan:
    """The servers to add, the secrets found in them, and notes for the user."""

    target: Path
    sources: list[ImportFile] = field(default_factory=list[ImportFile])
    servers: dict[str, Mapping[str, JSON]] = field(default_factory=dict[str, Mapping[str, JSON]])
    secrets: list[Secret] = field(default_factory=list[Secret])
    notes: list[str] = field(default_factory=list[str])
    claimed: dict[str, tuple[str, Mapping[str, JSON]]] = field(
        default_factory=dict[str, tuple[str, Mapping[str, JSON]]]
    )
    """All imported servers by alias, each with its editor."""
    trusted: bool = False


@command
def import_(
    own: Invocation,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="EDITOR|FILE",
            help="claude, claude-code, cursor, vscode, windsurf, gemini, goose, codex, zed, opencode, or a "
            "file; default: every config found.",
            autocompletion=editor_names,
        ),
    ] = None,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            "-y",
            help="Add them to toolbus.yaml in this folder, or to --config; default: only show them.",
        ),
    ] = False,
    with_secrets: Annotated[
        bool, typer.Option("--with-secrets", help="With --yes: copy literal secrets to .env.")
    ] = False,
    write: Annotated[bool, typer.Option("--write", hidden=True)] = False,  # the old name
) -> CommandResult:
    """Import servers from an editor's or agent's config."""
    screen = own.screen
    target = own.settings.config or Path("toolbus.yaml")
    if target.suffix not in (".yaml", ".yml"):
        raise Usage(f"{str(target)!r}: not a YAML file; pass a .yaml file with --config")
    yes = yes or write
    if with_secrets and not yes:
        raise Usage("--with-secrets needs --yes; add it")
    plan = _plan_import(_sources(source), target)
    written = yes and bool(plan.servers or (with_secrets and plan.secrets))
    if written:
        is_own = _is_own(plan)
        after = _write(plan, with_secrets)
        plan.trusted = is_own and trust_written(screen, target, after)
    return CommandResult(_json(plan, written), lambda: _show(screen, plan, written, with_secrets))


def offer_import(own: Invocation) -> None:
    """Offer the servers of editors to a user without a config; raises `ConfigError` unless they agree."""
    screen, target = own.screen, Path("toolbus.yaml")
    try:
        plan = _plan_import(_sources(None), target)
    except (Usage, ConfigError):
        plan = ImportPlan(target=target)
    if not plan.servers:
        raise no_config(working_folder())
    editors = list(dict.fromkeys(EDITORS[editor].title for editor, _ in plan.claimed.values()))
    listed = " and ".join(filter(None, (", ".join(editors[:-1]), editors[-1])))
    found = f"{counted(len(plan.servers), 'server')} in {listed}"
    is_agreed = False
    if not screen.as_json and can_ask():
        _show_plan(screen, plan, "in .env")
        files = f"{target} and .env" if plan.secrets else str(target)
        is_agreed = confirm(f"No config yet. Use the {found}? This writes {files} in this folder. [y/N]: ")
    if not is_agreed:
        raise no_config(working_folder(), found)
    is_own = _is_own(plan)
    after = _write(plan, with_secrets=True)
    if is_own:
        trust_written(screen, target, after)
    _note_gitignore(screen, plan)


def _sources(source: str | None) -> list[ImportFile]:
    folder = Path.cwd()
    if source is not None and source not in EDITORS:
        path = Path(os.path.expanduser(source))
        if not path.is_file():
            raise Usage(f"{source!r} is neither a file nor one of {', '.join(EDITORS)}")
        return [ImportFile(path=path, folder=folder)]
    found = files_here(source)
    if not found:
        whose = "any of " + ", ".join(EDITORS) if source is None else EDITORS[source].title
        raise Usage(f"no config of {whose} found in this folder or your home; pass the path of the file")
    return found


def _plan_import(sources: Sequence[ImportFile], target: Path) -> ImportPlan:
    """Collect the servers that the target lacks; a name conflict is resolved by renaming the second."""
    plan = ImportPlan(target=target)
    existing_servers: Mapping[str, JSON] = servers_in(_read_text(target), target) if target.is_file() else {}
    env = env_values(target.parent)
    taken = dict(env)
    for source in sources:
        if target.is_file() and source.path.samefile(target):
            raise Usage(
                f"{str(target)!r} is the file to import into; pass another one with --config, or run "
                "'toolbus config' to show it"
            )
        try:
            found = imported(source, taken=taken)
        except ConfigError as error:
            if len(sources) == 1:
                raise
            plan.notes.append(f"skipped: {error}")
            continue
        plan.sources.append(source)
        _add(plan, found, existing_servers, env)
        taken |= {secret.name: secret.value for secret in plan.secrets}
    return plan


def _read_text(path: Path) -> str:
    # Keeps line endings, because the text is written back.
    with path.open(encoding="utf-8", newline="") as file:
        return file.read()


def _add(
    plan: ImportPlan, found: ImportedServers, existing_servers: Mapping[str, JSON], env: Mapping[str, str]
) -> None:
    plan.notes += found.notes
    for alias, entry in found.servers.items():
        name = _free_alias(plan, alias, entry, found.source)
        if name is None:
            continue
        plan.claimed[name] = (found.source.editor, entry)
        secrets = [replace(secret, server=name) for secret in found.secrets if secret.server == alias]
        if name not in existing_servers:
            plan.servers[name] = entry
            plan.secrets += secrets
            continue
        if existing_servers[name] != entry:
            plan.notes.append(f"{name}: {plan.target} already has a server of that name; kept it")
        plan.secrets += _unset_secrets(
            secrets, existing_servers[name], {*env, *(secret.name for secret in plan.secrets)}
        )


def _free_alias(plan: ImportPlan, alias: str, entry: Mapping[str, JSON], source: ImportFile) -> str | None:
    """The alias for the server; None if it is a duplicate, or if its editor would ignore it."""
    for name in chain(
        (alias, f"{alias}-{source.editor}"), (f"{alias}-{source.editor}-{n}" for n in count(2))
    ):
        if name not in plan.claimed:
            if name != alias:
                plan.notes.append(
                    f"{alias}: {source.path} has a different server of that name; imported as {name}"
                )
            return name
        editor, known = plan.claimed[name]
        if {**known, "enabled": True} == {**entry, "enabled": True}:
            return None
        if editor == source.editor:  # in an editor, the project's entry wins over the user's
            plan.notes.append(f"{alias}: {source.path} has a different server of that name; skipped")
            return None
    raise AssertionError("numbers do not end")


def _unset_secrets(secrets: Sequence[Secret], entry: JSON, known: set[str]) -> list[Secret]:
    """The secrets that an existing entry refers to and that have no value yet."""
    referred = referenced_names(entry) if is_mapping(entry) else frozenset[str]()
    return [secret for secret in secrets if secret.name in referred - known]


def _is_own(plan: ImportPlan) -> bool:
    """Whether everything in the target will be the user's own, so that it can be trusted.

    Existing content must be trusted; an editor's file in the project may come from anyone.
    """
    if any(source.is_of_project for source in plan.sources):
        return False
    existing = plan.target.exists() or (plan.target.parent / DOTENV).exists()
    return not existing or is_trusted(plan.target)


def _write(plan: ImportPlan, with_secrets: bool) -> bytes:
    """Write servers and secrets; return the content of the config."""
    before = _read_text(plan.target) if plan.target.is_file() else None
    try:
        after = as_yaml(plan.servers) if before is None else with_servers(before, plan.target, plan.servers)
    except NotEditable as error:
        raise Usage(f"{plan.target} {error.problem}") from None
    if with_secrets:
        add_secrets(plan.target.parent, plan.secrets)
    if plan.servers:
        save_in_project(plan.target, after.encode())
    return after.encode()


def _json(plan: ImportPlan, written: bool) -> JSON:
    return {
        "target": str(plan.target),
        "written": written,
        "trusted": plan.trusted,
        "sources": [{"editor": source.editor, "path": str(source.path)} for source in plan.sources],
        "servers": plan.servers,
        "secrets": [picked(secret, "server key name") for secret in plan.secrets],
        "notes": plan.notes,
    }


def _show(screen: Screen, plan: ImportPlan, written: bool, with_secrets: bool) -> None:
    is_kept = written and with_secrets
    _show_plan(screen, plan, "now in .env" if is_kept else SET_IT)
    if is_kept:
        _note_gitignore(screen, plan)
    screen.note(_summary(plan, written))


def _note_gitignore(screen: Screen, plan: ImportPlan) -> None:
    if plan.secrets and (plan.target.parent / ".git").exists():
        screen.note("add .env to .gitignore to keep it out of version control")


def _show_plan(screen: Screen, plan: ImportPlan, where: str) -> None:
    """Print the servers and their sources; `where` their secrets are."""
    for source in plan.sources:
        title = EDITORS[source.editor].title if source.editor in EDITORS else "file"
        screen.line((f"# {title}: {source.path}", "dim"))
    if plan.servers:
        screen.line(visible(as_yaml(plan.servers)))
    for note in plan.notes:
        screen.note(note)
    for secret in plan.secrets:
        screen.note(f"{secret.server}: {secret.key} is a secret, replaced by ${{{secret.name}}}: {where}")


def _summary(plan: ImportPlan, written: bool) -> str:
    """The changes that were or would be made, and the next step."""
    what = counted(len(plan.servers), "server") if plan.servers else counted(len(plan.secrets), "secret")
    where = str(plan.target) if plan.servers else DOTENV
    if written:
        return f"wrote {what} to {where}; next: toolbus {'check' if plan.trusted else 'trust'}"
    if plan.servers:
        return f"would add {what} to {where}; run with --yes to do it"
    if plan.secrets:
        return f"no new servers; run with --yes --with-secrets to add {what} to {where}"
    return "nothing to import"
