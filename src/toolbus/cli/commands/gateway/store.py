"""`toolbus store`: encrypt what gateways and workers share with another key, back it up, and restore it."""

import asyncio
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from toolbus.bus.engine.stores import store_for_command, store_url
from toolbus.cli.command import CommandResult, Invocation, command, config_command, group
from toolbus.cli.commands.agents.run_store import DEFAULT, VARIABLE, durable_settings, load_durable
from toolbus.cli.errors import Usage
from toolbus.cli.options import check_config
from toolbus.cli.output.screen import Screen
from toolbus.cli.terminal import variables, working_folder
from toolbus.core.text.display import counted
from toolbus.core.values.errors import ConfigError, StoreError, ToolbusError
from toolbus.core.values.records import JSONObject
from toolbus.state.store.backup import Backup, Counts, Part, PartName, opened_backup, save
from toolbus.state.store.database import parse_store_url
from toolbus.state.store.store import KeyUse, Store, key_use
from toolbus.state.store.store import rekey as rekeyed

_COUNTED: dict[PartName, tuple[str, str]] = {
    "store": ("toolbus_store", "value"),
    "runs": ("workflow_status", "run"),
}
"""The table whose rows people count, and what they call them."""
_Backup = Annotated[Path, typer.Argument(metavar="FILE", help="The file of the backup.")]
_Runs = Annotated[
    str | None,
    typer.Option(
        "--runs",
        metavar="URL",
        help="The store of durable runs: a SQLite file, or a postgresql:// URL; default: $TOOLBUS_RUNS, or "
        "runs.db.",
    ),
]


@group
def store(own: Invocation) -> None:
    """Back up, restore and re-encrypt shared databases."""


@config_command
def rekey(own: Invocation) -> CommandResult:
    """Re-encrypt the store with the first $TOOLBUS_STORE_KEY.

    Then the other keys in it are not needed any more. Gateways may run meanwhile, if they have both.

    \b
    TOOLBUS_STORE_KEY="$NEW,$OLD" toolbus store rekey
    """
    screen, opened = own.screen, store_for_command(own.config)
    if opened is None:
        raise Usage("the config has no store")
    changed, left = asyncio.run(_rekeyed(opened))

    def lines() -> None:
        screen.line(f"re-encrypted {counted(changed, 'value')} of {left.total}")
        if left.other:
            values = counted(left.other, "value")
            step = "give all gateways the new key as the first one, and run this again"
            raise ToolbusError(f"meanwhile, others wrote {values} with another key; {step}")
        if left.problem:
            raise ToolbusError(f"{left.problem}; add the key of those who wrote them, and run this again")
        screen.note("all values are encrypted with the first key; the others are not needed any more")

    unreadable = left.unreadable.total()
    document = {"changed": changed, "total": left.total, "left": left.other, "unreadable": unreadable}
    return CommandResult(document, lines, 1 if screen.as_json and (left.other or left.unreadable) else 0)


async def _rekeyed(store: Store) -> tuple[int, KeyUse]:
    async with store:
        return await rekeyed(store)


@command
def backup(
    own: Invocation,
    file: _Backup,
    runs: _Runs = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Overwrite an existing file.")] = False,
    force: Annotated[bool, typer.Option("--force", hidden=True)] = False,  # the old name
) -> CommandResult:
    """Save the config's store and the durable runs in one file.

    Gateways and workers may run meanwhile; each database is saved as of one moment. Values of the store stay
    encrypted, and their key is not in the file. Runs are not encrypted. Only you can read the file.

    \b
    toolbus store backup monday.db
    toolbus store backup monday.db --runs postgresql://db.internal/runs
    """
    screen, path = own.screen, working_folder() / file
    if not path.parent.is_dir():
        raise Usage(f"there is no folder {str(path.parent)!r}; create it first")
    if path.exists() and not (yes or force):
        raise Usage(f"{str(file)!r} exists; choose another name, or overwrite it with --yes")
    parts = [part for part in (_store_part(own), _runs_part(screen, runs, is_new=False)) if part]
    if not parts:
        raise Usage(
            "there is nothing to save: the config has no store, and there are no runs; name them with --runs"
        )
    with _progress(screen, "saving") as progressed:
        saved = save(parts, path, progressed)

    def lines() -> None:
        _print_counts(screen, "saved", parts, saved)
        if "runs" not in saved:
            missing = f"there is no {DEFAULT} in this folder; name them with --runs"
            screen.note(f"no durable runs are saved: {missing}")
        if "store" in saved:
            screen.note("the values of the store stay encrypted; keep their key, which is not in the file")

    return CommandResult({"file": str(path), **_counts_json(parts, saved)}, lines)


@command
def restore(own: Invocation, file: _Backup, runs: _Runs = None) -> CommandResult:
    """Restore a backup into empty databases.

    The store goes into the store of the config, and durable runs into their own. Each may be SQLite or
    Postgres, regardless of the old one. Stop the gateways and workers of the old databases first, and start
    others afterwards: keys, logins, sessions and runs continue from the backup.

    \b
    toolbus store restore monday.db --runs postgresql://new.internal/runs
    """
    screen, path = own.screen, working_folder() / file
    if not path.is_file():
        raise Usage(f"there is no file {str(file)!r}; name one that 'toolbus store backup' has written")
    with opened_backup(path) as found:
        parts = list(_destinations(own, found, runs))
        with _progress(screen, "restoring") as progressed:
            found.restore(parts, progressed)
    problem = asyncio.run(_key_problem(parts))

    def lines() -> None:
        _print_counts(screen, "restored", parts, found.parts)
        if problem:
            screen.note(f"the gateways cannot use the store yet: {problem}")

    document = {"file": str(path), **_counts_json(parts, found.parts), "key_problem": problem}
    return CommandResult(document, lines, int(bool(problem)))


def _destinations(own: Invocation, found: Backup, runs: str | None) -> Generator[Part]:
    if "store" in found.parts:
        part = _store_part(own)
        if part is None:
            problem = "the backup has the store of a gateway, and the config has no store to restore it into"
            raise Usage(f"{problem}; add 'store' to it, or name another one with --config")
        yield part
    if "runs" in found.parts:
        part = _runs_part(own.screen, runs, is_new=True)
        assert part is not None, "a new one is always possible"
        yield part
    elif runs is not None:
        raise Usage("the backup has no durable runs; omit --runs")


def _store_part(own: Invocation) -> Part | None:
    """The store of the config; None if there is no config, or it has none."""
    try:
        check_config(own.settings)
    except ConfigError:
        return None
    config = own.config
    if config.store is None:
        return None
    return Part(name="store", url=asyncio.run(store_url(config, config.store)))


def _runs_part(screen: Screen, runs: str | None, *, is_new: bool) -> Part | None:
    """The store of runs; None if nobody named one, and there is none in this folder."""
    is_named = bool(runs or variables().get(VARIABLE))
    if not is_named and not is_new and not (working_folder() / DEFAULT).exists():
        return None
    load_durable(screen, "a backup of durable runs")
    from toolbus.agent.durable.store.store import RunStore

    try:
        settings = durable_settings(runs, "agent")
    except Usage as error:
        raise Usage(str(error).replace("--store", "--runs", 1)) from None
    if not is_new and settings.file is not None and not settings.file.exists():
        raise Usage(
            f"there is no store of runs at {str(settings.file)!r}; name it with --runs or ${VARIABLE}"
        )

    def prepare() -> None:
        store = RunStore(settings.url)
        try:
            store.open()
        finally:
            store.close()

    url = parse_store_url(settings.url.replace("+psycopg", "", 1))
    return Part(name="runs", url=url, prepare=prepare)


async def _key_problem(parts: Iterable[Part]) -> str | None:
    """The reason why the key at hand does not open a restored store; None if it does."""
    for part in parts:
        if part.name == "store":
            try:
                async with Store(part.url) as store:
                    return (await key_use(store)).problem or None
            except StoreError as error:
                return str(error)
    return None


@contextmanager
def _progress(screen: Screen, verb: str) -> Generator[Callable[[int], None]]:
    with screen.spinner(verb) as spinner:
        yield lambda rows: spinner.set_text(f"{verb}: {rows:,} rows")


def _counts_json(parts: Iterable[Part], counts: Mapping[PartName, Counts]) -> JSONObject:
    return {
        part.name: {"place": part.url.place, _COUNTED[part.name][1] + "s": _count(part, counts)}
        for part in parts
    }


def _print_counts(
    screen: Screen, verb: str, parts: Iterable[Part], counts: Mapping[PartName, Counts]
) -> None:
    for part in parts:
        amount = counted(_count(part, counts), _COUNTED[part.name][1])
        screen.line(f"{verb} {amount}: {part.url.place}")


def _count(part: Part, counts: Mapping[PartName, Counts]) -> int:
    return counts[part.name].get(_COUNTED[part.name][0], 0)
