"""`toolbus config --stations`: what every operation passes, in order, and where each station comes from."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolbus.bus.rules.lock import LockApprovals
from toolbus.bus.rules.stations import config_station
from toolbus.cli.command import CommandResult, Invocation
from toolbus.cli.errors import FAILED
from toolbus.cli.output.screen import Cell, Screen, one_line, picked, short_path
from toolbus.config import BusConfig, Secrets
from toolbus.config.find import from_home
from toolbus.config.layers import origins
from toolbus.config.location import ValueOrigin
from toolbus.config.stations import StationCode
from toolbus.core.text.display import counted
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON
from toolbus.lock.file import lock_path

_PLACES = {"observer": "observers", "hook": "hooks", "guard": "guards"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StationRow:
    """One station of the path."""

    station: str
    """Its place on the path, as in docs/architecture.md."""
    name: str
    active: bool = True
    note: str = ""
    place: ValueOrigin | None = None
    """Its place in the config; None if it is built in."""
    problem: str | None = None


async def stations_of(own: Invocation) -> CommandResult:
    """List the stations; hooks are imported and made for that, unless they are on hold."""
    approvals = LockApprovals(own.config)
    yours = [await _row_of(code, own.config, approvals) for code in approvals.stations]
    rows = list(_all(own.config, yours))
    failed = FAILED if any(row.problem for row in rows) else 0
    return CommandResult(list(map(_row_json, rows)), lambda: _print_rows(own.screen, rows), failed)


async def _row_of(code: StationCode, config: BusConfig, approvals: LockApprovals) -> StationRow:
    """The row of one hook of the config; one that cannot be used has a problem."""
    entry = code.entry
    place, words = ValueOrigin(entry.file, entry.line), f"{entry.use}, from {code.source}"
    if approvals.held_stations is not None and approvals.held_stations[0] == "block":
        problem = f"on hold, so every call is refused: {approvals.held_stations[1]}"
        return StationRow(station="hooks", name=entry.use, active=False, place=place, problem=problem)
    try:
        one = await config_station(code, Secrets(None, config.folder, config.reviewed))
    except ConfigError as error:
        return StationRow(station="hooks", name=entry.use, active=False, place=place, problem=error.problem)
    await one.close()
    return StationRow(station=_PLACES[one.kind], name=words, place=place)


def _all(config: BusConfig, yours: Sequence[StationRow]) -> Iterator[StationRow]:
    """All rows in the order of `bus/stations.py`."""
    find = None if config.file is None else origins(config)
    servers, rules = config.servers.values(), sum(len(layer.policy) for layer in config.rules)
    repaired = sum(server.repair for server in servers)
    lock = None if config.file is None else lock_path(config.file)
    audit, traced = config.audit, config.telemetry is not None

    def built_in(station: str, name: str, active: bool, key: str | None = None, note: str = "") -> StationRow:
        place = None if key is None or find is None else find(None, key)
        return StationRow(station=station, name=name, active=active, note=note, place=place)

    yield built_in("journal", "recorded results of a durable run", False, note="only in durable runs")
    yield built_in("observers", "telemetry", traced, "telemetry", "for an OpenTelemetry SDK")
    yield built_in("observers", "events", True)
    yield from (row for row in yours if row.station == "observers")
    yield built_in(
        "observers", "audit log", audit is not None, "audit", short_path(audit.file) if audit else ""
    )
    yield from (row for row in yours if row.station == "hooks")
    yield built_in("arguments", "check and repair", repaired > 0, None, f"for {counted(repaired, 'server')}")
    yield from (row for row in yours if row.station == "guards")
    yield built_in("policy", "rules and rates", rules > 0, "policy", counted(rules, "rule"))
    quotas = len(config.quotas)
    yield built_in(
        "quotas", "calls of each key, user, view or server", quotas > 0, "quotas", counted(quotas, "quota")
    )
    yield built_in("route", "to the connection of the server", True)
    is_locked = lock is not None and lock.is_file()
    note = short_path(lock) if lock is not None and is_locked else "no lockfile"
    yield built_in("connection", "lock", is_locked, "lock", note)
    yield built_in("connection", "time limits", True, "timeouts")


def _row_json(row: StationRow) -> JSON:
    place = None if row.place is None else picked(row.place, "file line")
    return {**picked(row, "station name active note"), "from": place, "problem": row.problem}


def _print_rows(screen: Screen, rows: Sequence[StationRow]) -> None:
    screen.rows([_cells(row) for row in rows], indent=0)
    if any(row.problem for row in rows):
        screen.note("a hook cannot be used, so the bus does not start, or refuses every call")


def _cells(row: StationRow) -> list[Cell]:
    place = "built in"
    if row.place is not None and row.place.file is not None:
        line = "" if row.place.line is None else f":{row.place.line}"
        place = f"{from_home(short_path(Path(row.place.file)))}{line}"
    state = ("failed", "red") if row.problem else ("on", "green") if row.active else ("off", "dim")
    text = " - ".join(filter(None, [row.name, row.problem or row.note]))
    return [(row.station, "bold"), state, (one_line(place), "dim"), one_line(text)]
