"""The stations of a config: what its `hooks` name, on the call path of a bus.

Each is kept over a reload of the config that does not change it. One that is replaced is closed when the
operations that still pass it have ended.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from typing import Any

from toolbus.bus.rules.lock import LockApprovals
from toolbus.bus.rules.station_import import ImportedStation, imported, place_of, told
from toolbus.call.path import Next
from toolbus.config import Secrets
from toolbus.config.location import is_list, is_mapping
from toolbus.config.secrets.lookup import FoundValue, MissingValue
from toolbus.config.secrets.redact import Redactor, names_credential
from toolbus.config.secrets.reference import Reference, parsed
from toolbus.config.settings.stations import StationEntry
from toolbus.config.stations import StationCode
from toolbus.core.ask.approval import ApprovalPending
from toolbus.core.operation.operation import Failure, Observation, Operation
from toolbus.core.text.canonical import digest_of
from toolbus.core.values.errors import CallDenied, HookFailed, ToolbusError
from toolbus.core.values.records import JSON, ToolResult

logger = logging.getLogger("toolbus")
DRAIN_SECONDS = 30.0
"""The longest wait of a replaced station for the operations that still pass it."""
CLOSE_SECONDS = 5.0
"""The time limit for the `close` of a station."""


class ConfigStation:
    """One station of a config, as the call path uses it."""

    def __init__(self, code: StationCode, key: str, made: ImportedStation, redactor: Redactor) -> None:
        self.entry = code.entry
        self.key = key
        """The digest of its code and its options: a reload keeps a station with the same one."""
        self.kind = made.kind
        self._target = made.station
        self._is_ours = made.is_ours
        self._redactor = redactor  # held: as long as it exists, its secrets are hidden
        self._passing = 0
        self._idle = asyncio.Event()
        self._reported: set[type[Exception]] = set()

    def __getattr__(self, name: str) -> Any:
        """Pass on other attributes of an observer, such as `times_stations`."""
        return _told_by(self, "_target", name)

    def start(self, operation: Operation, /) -> "_GuardedObservation | None":
        """Observe an operation; an exception of the observer is logged, once for each class."""
        try:
            found: Observation | None = self._target.start(operation)
        except Exception as error:  # the user's code
            self.report(error)
            return None
        if found is None:
            return None
        self._passing += 1
        return _GuardedObservation(self, found)

    async def around(self, call: Operation, following: Next) -> ToolResult:
        """Pass an operation through the hook; `HookFailed` if the hook itself raises."""
        below: list[Exception] = []

        async def onward(operation: Operation) -> ToolResult:
            try:
                return await following(operation)
            except Exception as error:
                below.append(error)
                raise

        self._passing += 1
        try:
            result: object = await self._target(call, onward)
        except Exception as error:
            if isinstance(error, ToolbusError) or error in below:
                raise
            self.report(error)
            short = f"raised {type(error).__name__}"
            raise HookFailed(
                self.entry.use, call.spec.name, f"raised {self._described(error)}", short
            ) from error
        finally:
            self.passed()
        if not isinstance(result, ToolResult):
            raise HookFailed(
                self.entry.use, call.spec.name, f"returned {type(result).__name__}, not a ToolResult"
            )
        return result

    async def check(self, operation: Operation) -> None:
        """Let the guard see an operation; one that fails refuses it."""
        self._passing += 1
        try:
            await self._target(operation)
        except (CallDenied, ApprovalPending):
            raise
        except Exception as error:
            what = f"{operation.route} of {operation.spec.name!r}"
            self.report(error)
            guard = f"the guard {self.entry.use!r} raised"
            reason, short = f"{guard} {self._described(error)}", f"{guard} {type(error).__name__}"
            raise CallDenied(what, reason, public=short) from error
        finally:
            self.passed()

    def passed(self) -> None:
        """An operation has left it."""
        self._passing -= 1
        if not self._passing:
            self._idle.set()

    def report(self, error: Exception) -> None:
        """Log what the station raised, unless it has raised such an exception before."""
        if type(error) not in self._reported:
            self._reported.add(type(error))
            logger.error(
                "the %s %r raised %s; this kind is not logged again",
                self.kind,
                self.entry.use,
                self._described(error),
            )

    def _described(self, error: Exception) -> str:
        """The exception of the station, with its file and line."""
        place = place_of(error, self.entry.folder)
        return f"{told(error)} ({place})" if place else told(error)

    async def close(self, patience: float = DRAIN_SECONDS) -> None:
        """Close it, if it was made here and has `aclose` or `close`, once nothing passes it any more."""
        self._idle.clear()
        if self._passing:
            await asyncio.wait([asyncio.ensure_future(self._idle.wait())], timeout=patience)
        end: Callable[[], object] | None = getattr(self._target, "aclose", None) or getattr(
            self._target, "close", None
        )
        if not self._is_ours or not callable(end):
            return
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                if isawaitable(ended := end()):
                    await ended
        except Exception as error:  # the user's code
            logger.error("closing %r failed: %s", self.entry.use, told(error))


class _GuardedObservation:
    """One operation, as an observer of the config follows it."""

    def __init__(self, station: ConfigStation, found: Observation) -> None:
        self._station = station
        self._found = found

    def __getattr__(self, name: str) -> Any:
        """Pass on other attributes, such as `ignores_progress`."""
        return _told_by(self, "_found", name)

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        try:
            self._found.progress(progress, total, message)
        except Exception as error:  # the user's code
            self._station.report(error)

    def end(self, result: ToolResult | None, failure: Failure | None) -> None:
        try:
            self._found.end(result, failure)
        except Exception as error:  # the user's code
            self._station.report(error)
        finally:
            self._station.passed()


def _told_by(outer: object, inside: str, name: str) -> Any:
    """A public attribute of what an object wraps; AttributeError if it has none."""
    if name.startswith("_"):
        raise AttributeError(name)
    return getattr(vars(outer)[inside], name)


class ConfigStations:
    """The stations of the config in use."""

    def __init__(self, approvals: LockApprovals) -> None:
        self.is_loaded = not approvals.stations and approvals.held_stations is None
        """Whether they stand on the path; without that, no operation may be made."""
        self.refusal: str | None = None
        """The reason to refuse every operation: the hooks differ from the lock."""
        self.all: tuple[ConfigStation, ...] = ()
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def observers(self) -> list[ConfigStation]:
        """The observers, in order."""
        return [one for one in self.all if one.kind == "observer"]

    @property
    def hooks(self) -> list[Callable[[Operation, Next], Awaitable[ToolResult]]]:
        """The hooks, the first one outermost."""
        return [one.around for one in self.all if one.kind == "hook"]

    @property
    def guards(self) -> list[Callable[[Operation], Awaitable[None]]]:
        """The guards; while the hooks are on hold, one that refuses everything."""
        return [
            *([] if self.refusal is None else [self._refuse]),
            *(one.check for one in self.all if one.kind == "guard"),
        ]

    async def _refuse(self, operation: Operation) -> None:
        raise CallDenied(f"{operation.route} of {operation.spec.name!r}", str(self.refusal))

    async def prepare(self, approvals: LockApprovals, secrets: Secrets) -> tuple[ConfigStation, ...]:
        """Make the stations of a config that are not in use; ConfigError if one cannot be made.

        Nothing is imported that is on hold.
        """
        if _refusal(approvals) is not None:
            return ()
        left, found = list(self.all), list[ConfigStation]()
        try:
            for code in approvals.stations:
                found.append(one := await config_station(code, secrets, left))
                if one in left:
                    left.remove(one)
        except BaseException:
            await self.discard(found)
            raise
        return tuple(found)

    def use(self, found: tuple[ConfigStation, ...], approvals: LockApprovals) -> None:
        """Use the prepared stations, and close the replaced ones after their last operation."""
        gone = [one for one in self.all if one not in found]
        self.all, self.refusal, self.is_loaded = found, _refusal(approvals), True
        for one in gone:
            task = asyncio.create_task(one.close(), name="toolbus close hook")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def discard(self, found: Sequence[ConfigStation]) -> None:
        """Close prepared stations that are not used after all."""
        for one in found:
            if one not in self.all:
                await one.close()

    async def close(self) -> None:
        """Close all of them, those too that wait for their last operations."""
        closing, self.all = [one.close(patience=1.0) for one in self.all], ()
        await asyncio.gather(*closing, *self._closing, return_exceptions=True)


async def config_station(
    code: StationCode, secrets: Secrets, known: Sequence[ConfigStation] = ()
) -> ConfigStation:
    """The station of an entry: a known one if nothing differs, else a new one; or ConfigError."""
    options, redactor = await _filled(code.entry, secrets)
    key = digest_of([code.locked, str(code.entry.folder), options])
    same = next((one for one in known if one.key == key), None)
    return same or ConfigStation(code, key, imported(code, options), redactor)


def _refusal(approvals: LockApprovals) -> str | None:
    mode, reason = approvals.held_stations or ("off", None)
    return reason if mode == "block" else None


async def _filled(entry: StationEntry, secrets: Secrets) -> tuple[dict[str, Any], Redactor]:
    """The options with every reference filled in, and what hides their secrets."""
    if entry.folder is not None and entry.folder != secrets.folder:
        secrets = secrets.within(entry.folder)
    private: list[str] = []
    options = {key: await _value(entry, key, one, secrets, private) for key, one in entry.options.items()}
    return options, Redactor(private)


async def _value(entry: StationEntry, key: str, value: JSON, secrets: Secrets, private: list[str]) -> JSON:
    """A value with every reference filled in; its secrets join the private ones."""
    if is_mapping(value):
        inner = {str(name): one for name, one in value.items()}
        return {
            name: await _value(entry, f"{key}.{name}", one, secrets, private) for name, one in inner.items()
        }
    if is_list(value):
        return [
            await _value(entry, f"{key}[{index}]", one, secrets, private) for index, one in enumerate(value)
        ]
    if not isinstance(value, str):
        return value
    text = ""
    for part in parsed(value, key=key):
        found = await secrets.find(part) if isinstance(part, Reference) else FoundValue(part, is_secret=False)
        if isinstance(found, MissingValue):
            assert isinstance(part, Reference)
            raise entry.error(f"secret {part.label!r} {found.reason}", key)
        private += [found.value] if found.is_secret else []
        text += found.value
    if names_credential(key.rpartition(".")[2]):
        private.append(text)
    return text
