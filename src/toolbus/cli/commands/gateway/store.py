"""`toolbus store`: encrypt what gateways and workers share with another key, back it up, and restore it."""

import asyncio
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path

from rich.text import Text

from toolbus.bus.engine.stores import store_for_command, store_url
from toolbus.cli.commands.agents.runs import DEFAULT, VARIABLE, durable_settings, load_durable
from toolbus.cli.errors import Usage
from toolbus.cli.options import SharedOptions, check_config
from toolbus.cli.output.screen import Screen
from toolbus.cli.session import load_trusted_config
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


def rekey(settings: SharedOptions) -> int:
    """Encrypt all values with the first key, and print what is left; 1 if something is."""
    screen, config = Screen(settings), load_trusted_config(settings)
    store = store_for_command(config)
    if store is None:
        raise Usage("the config has no store")
    changed, left = asyncio.run(_rekeyed(store))
    if screen.as_json:
        unreadable = left.unreadable.total()
        screen.json({"changed": changed, "total": left.total, "left": left.other, "unreadable": unreadable})
        return 1 if left.other or left.unreadable else 0
    screen.print(Text(f"encrypted {counted(changed, 'value')} of {left.total} anew"))
    if left.other:
        values = counted(left.other, "value")
        step = "give all gateways the new key as the first one, and run this again"
        raise ToolbusError(f"meanwhile, others wrote {values} with another key; {step}")
    if left.problem:
        raise ToolbusError(f"{left.problem}; add the key of those who wrote them, and run this again")
    screen.note("all values are encrypted with the first key; the others are not needed any more")
    return 0


async def _rekeyed(store: Store) -> tuple[int, KeyUse]:
    async with store:
        return await rekeyed(store)


def backup(settings: SharedOptions, file: Path, runs: str | None, *, force: bool) -> int:
    """Save the store of the config and the runs in a file, as far as there are any."""
    screen, path = Screen(settings), working_folder() / file
    if not path.parent.is_dir():
        raise Usage(f"there is no folder {str(path.parent)!r}; create it first")
    if path.exists() and not force:
        raise Usage(f"{str(file)!r} exists; choose another name, or overwrite it with --force")
    parts = [part for part in (_store_part(settings), _runs_part(screen, runs, is_new=False)) if part]
    if not parts:
        raise Usage(
            "there is nothing to save: the config has no store, and there are no runs; name them with --runs"
        )
    with _progress(screen, "saving") as report:
        saved = save(parts, path, report)
    if screen.as_json:
        screen.json({"file": str(path), **_counts_json(parts, saved)})
        return 0
    _print_counts(screen, "saved", parts, saved)
    if "runs" not in saved:
        screen.note(f"no durable runs are saved: there is no {DEFAULT} in this folder; name them with --runs")
    if "store" in saved:
        screen.note("the values of the store stay encrypted; keep their key as well: it is not in the file")
    return 0


def restore(settings: SharedOptions, file: Path, runs: str | None) -> int:
    """Restore what a file has into empty databases."""
    screen, path = Screen(settings), working_folder() / file
    if not path.is_file():
        raise Usage(f"there is no file {str(file)!r}; name one that 'toolbus store backup' has written")
    with opened_backup(path) as found:
        parts = list(_destinations(screen, settings, found, runs))
        with _progress(screen, "restoring") as report:
            found.restore(parts, report)
    problem = asyncio.run(_key_problem(parts))
    if screen.as_json:
        screen.json({"file": str(path), **_counts_json(parts, found.parts), "key_problem": problem})
        return int(bool(problem))
    _print_counts(screen, "restored", parts, found.parts)
    if problem:
        screen.note(f"the gateways cannot use the store yet: {problem}")
    return int(bool(problem))


def _destinations(
    screen: Screen, settings: SharedOptions, found: Backup, runs: str | None
) -> Generator[Part]:
    if "store" in found.parts:
        part = _store_part(settings)
        if part is None:
            problem = "the backup has the store of a gateway, and the config has no store to restore it into"
            raise Usage(f"{problem}; add 'store' to it, or name another one with --config")
        yield part
    if "runs" in found.parts:
        part = _runs_part(screen, runs, is_new=True)
        assert part is not None, "a new one is always possible"
        yield part
    elif runs is not None:
        raise Usage("the backup has no durable runs; omit --runs")


def _store_part(settings: SharedOptions) -> Part | None:
    """The store of the config; None if there is no config, or it has none."""
    try:
        check_config(settings)
    except ConfigError:
        return None
    config = load_trusted_config(settings)
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
    """Why the key at hand does not open a restored store; None if it does."""
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
        screen.print(Text(f"{verb} {amount}: {part.url.place}"))


def _count(part: Part, counts: Mapping[PartName, Counts]) -> int:
    return counts[part.name].get(_COUNTED[part.name][0], 0)
