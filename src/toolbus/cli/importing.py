"""`toolbus import`: take over the servers of another program's config."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.text import Text

from toolbus.cli.options import Settings
from toolbus.cli.outcome import Usage
from toolbus.cli.screen import Screen, visible
from toolbus.cli.trust import is_trusted, trust_own
from toolbus.config.editors import EDITORS, Imported, Source, found_files, imported
from toolbus.config.literals import Secret
from toolbus.config.project import DOTENV
from toolbus.config.written import aliases_in, as_yaml, with_servers
from toolbus.errors import ConfigError
from toolbus.records import JSON


@dataclass(slots=True, kw_only=True)
class Plan:
    """What an import comes to: the servers to add, the secrets that were in them, what to know."""

    target: Path
    sources: list[Source] = field(default_factory=list[Source])
    servers: dict[str, Mapping[str, JSON]] = field(default_factory=dict[str, Mapping[str, JSON]])
    secrets: list[Secret] = field(default_factory=list[Secret])
    notes: list[str] = field(default_factory=list[str])
    trusted: bool = False


def run(settings: Settings, source: str | None, *, write: bool, with_secrets: bool) -> int:
    """Show what would be taken over; with `write`, do it."""
    screen = Screen(settings)
    target = settings.config or Path("toolbus.yaml")
    if target.suffix not in (".yaml", ".yml"):
        raise Usage(f"{str(target)!r}: servers are added to a YAML file; name one with --config")
    if with_secrets and not write:
        raise Usage("--with-secrets does nothing without --write")
    plan = _planned(_sources(source), target)
    if write and plan.servers:
        is_own = _is_own(plan)
        _write(plan, with_secrets)
        plan.trusted = is_own and trust_own(screen, target)
    if screen.as_json:
        screen.json(_json(plan, write))
    else:
        _show(screen, plan, write, with_secrets)
    return 0


def _sources(source: str | None) -> list[Source]:
    folder = Path.cwd()
    if source is not None and source not in EDITORS:
        if not Path(source).expanduser().is_file():
            raise Usage(f"{source!r} is neither a file nor one of {', '.join(EDITORS)}")
        return [Source(path=Path(source).expanduser(), folder=folder)]
    found = found_files(source, home=Path.home(), folder=folder, platform=sys.platform)
    if not found:
        whose = "any of " + ", ".join(EDITORS) if source is None else EDITORS[source].title
        raise Usage(f"no config of {whose} found here or in your home; name the file itself")
    return found


def _planned(sources: Sequence[Source], target: Path) -> Plan:
    """All servers that are not in the target yet; the first of a name wins."""
    plan = Plan(target=target)
    there = aliases_in(_text(target)) if target.is_file() else ()
    taken = _env_file(target)
    for source in sources:
        if target.is_file() and source.path.samefile(target):
            continue
        try:
            found = imported(source, taken=taken)
        except ConfigError as error:
            if len(sources) == 1:
                raise
            plan.notes.append(f"left out: {error}")
            continue
        plan.sources.append(source)
        _add(plan, found, there)
        taken |= {secret.name: secret.value for secret in plan.secrets}
    return plan


def _text(path: Path) -> str:
    # As it is, line ends too: it is written back with a few lines more.
    with path.open(encoding="utf-8", newline="") as file:
        return file.read()


def _env_file(target: Path) -> dict[str, str]:
    """What the `.env` beside the config holds."""
    from dotenv import dotenv_values

    path = target.parent / ".env"
    return {name: value or "" for name, value in dotenv_values(path).items()} if path.is_file() else {}


def _add(plan: Plan, found: Imported, there: Iterable[str]) -> None:
    plan.notes += found.notes
    for alias, entry in found.servers.items():
        if alias in there:
            plan.notes.append(f"{alias}: {plan.target} has a server of that name; it stays as it is")
        elif alias not in plan.servers:
            plan.servers[alias] = entry
            plan.secrets += [secret for secret in found.secrets if secret.server == alias]
        elif plan.servers[alias] != entry:
            plan.notes.append(f"{alias}: {found.source.path} has another server of that name; left out")


def _is_own(plan: Plan) -> bool:
    """Whether all that the target will say comes from the user: then writing it is agreeing to it.

    What was there before is the user's if it was trusted; an editor's file in the project may be anybody's.
    """
    if any(source.is_of_project for source in plan.sources):
        return False
    existing = plan.target.exists() or (plan.target.parent / DOTENV).exists()
    return not existing or is_trusted(plan.target)


def _write(plan: Plan, with_secrets: bool) -> None:
    fresh = with_servers(_text(plan.target), plan.servers) if plan.target.is_file() else as_yaml(plan.servers)
    if with_secrets:
        _write_secrets(plan)
    with plan.target.open("w", encoding="utf-8", newline="") as file:
        file.write(fresh)


def _write_secrets(plan: Plan) -> None:
    """Append them to the `.env` beside the config, which only its owner may read."""
    path, known = plan.target.parent / ".env", _env_file(plan.target)
    lines = {
        secret.name: f"{secret.name}={_quoted(secret.value)}\n"
        for secret in plan.secrets
        if secret.name not in known
    }
    gap = "" if not path.is_file() or path.read_bytes()[-1:] in (b"", b"\n") else "\n"
    with os.fdopen(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8"
    ) as file:
        file.write(gap + "".join(lines.values()))


def _quoted(text: str) -> str:
    """The text as a dotenv file takes it to the letter."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _json(plan: Plan, written: bool) -> JSON:
    return {
        "target": str(plan.target),
        "written": written and bool(plan.servers),
        "trusted": plan.trusted,
        "sources": [{"editor": source.editor, "path": str(source.path)} for source in plan.sources],
        "servers": plan.servers,
        "secrets": [{"server": s.server, "key": s.key, "name": s.name} for s in plan.secrets],
        "notes": plan.notes,
    }


def _show(screen: Screen, plan: Plan, written: bool, with_secrets: bool) -> None:
    for source in plan.sources:
        title = EDITORS[source.editor].title if source.editor in EDITORS else "file"
        screen.print(Text(f"# {title}: {source.path}", style="dim"))
    if plan.servers:
        screen.print(Text(visible(as_yaml(plan.servers))))
    for note in plan.notes:
        screen.note(note)
    for secret in plan.secrets:
        where = "is in .env now" if written and with_secrets else "set it in the environment or in .env"
        screen.note(f"{secret.server}: {secret.key} held a secret; ${{{secret.name}}} stands for it: {where}")
    if written and with_secrets and plan.secrets and Path(".git").exists():
        screen.note("keep .env out of version control: put it into .gitignore")
    count = f"{len(plan.servers)} server{'' if len(plan.servers) == 1 else 's'}"
    if not plan.servers:
        screen.note("nothing to take over")
    elif written:
        screen.note(f"wrote {count} to {plan.target}; next: toolbus {'check' if plan.trusted else 'trust'}")
    else:
        screen.note(f"would add {count} to {plan.target}; --write does it")
