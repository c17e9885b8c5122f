"""Follow the files of a config: use it as it changes, and report why it cannot be used."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

from toolbus.config import BusConfig, usable_config
from toolbus.config.find import layer_files
from toolbus.config.load import with_profile
from toolbus.config.trust import trusted_config, watched_files
from toolbus.core.values.errors import ToolbusError
from toolbus.lock.file import lock_path

Stamps: TypeAlias = dict[Path, tuple[int, int] | None]
"""Modification time and size of each file; None if it does not exist."""
POLL_SECONDS = 1.0
"""Interval for checking the files."""
CATCH_UP_SECONDS = 10.0
"""The time that a command waits for a changed config; new servers may take longer to start."""


class ConfigFollower:
    """The config of a running command, read again when its files change."""

    def __init__(
        self,
        config: BusConfig,
        began: int,
        use: Callable[[BusConfig], Awaitable[str]],
        report: Callable[[str, str, str], None],
    ) -> None:
        """`began` is the time before the config was read, in nanoseconds.

        `use` starts using another config, or raises `ToolbusError`; it returns what to add to "reloaded".
        """
        self.config = config
        """The config in use."""
        self.problem: str | None = None
        """The reason why the config has changed and the old one is still in use."""
        self._began = began
        self._use = use
        self._report = report
        self._seen: Stamps | None = None
        """The files of the config in use; None until they are followed."""
        self._reloading: asyncio.Task[None] | None = None

    @property
    def is_reloading(self) -> bool:
        """Whether the config has changed and its servers are about to be used."""
        return self._reloading is not None and not self._reloading.done()

    async def follow(self) -> None:
        """Check the files until cancelled."""
        self._seen = _stamps_at_start(self.config, self._began)
        while True:
            await asyncio.sleep(POLL_SECONDS)
            self._begin_reload()
            if self._reloading is not None:
                await self._reloading

    async def catch_up(self) -> None:
        """Use the config as it is now, unless its servers take too long to start."""
        self._begin_reload()
        if self._reloading is not None:
            await asyncio.wait((self._reloading,), timeout=CATCH_UP_SECONDS)

    def _begin_reload(self) -> None:
        if self._seen is None or self.is_reloading:
            return
        now = _stamps(self.config)
        if now != self._seen:
            self._reloading = asyncio.create_task(self._reload(now))

    async def _reload(self, now: Stamps) -> None:
        config = self.config
        try:
            fresh = _read_again(config)
            remark = await self._use(fresh)
        except ToolbusError as error:
            self.problem = str(error).removeprefix(f"{config.file}: ")
            self._report("config", f"not reloaded: {self.problem}", "red")
        else:
            self.config, self.problem = fresh, None
            self._report("config", f"reloaded{remark}", "")
        # The state before the reload, so that a write during it is noticed.
        self._seen = {file: now.get(file, stamp) for file, stamp in _stamps(self.config).items()}


def _stamps(config: BusConfig) -> Stamps:
    """The stamps of all files that affect the config, and of their lockfiles."""
    locks = [lock_path(str(file)) for file in layer_files(config)]
    return {file: _stamp(file) for file in [*watched_files(config), *locks]}


def _stamps_at_start(config: BusConfig, began: int) -> Stamps:
    """The stamps of the files as they were read."""
    # A file written since we began may have been read before the write: it counts as changed.
    read = {*layer_files(config), *map(Path, config.reviewed or ())}
    return {
        file: None if file in read and stamp is not None and stamp[0] >= began else stamp
        for file, stamp in _stamps(config).items()
    }


def _read_again(config: BusConfig) -> BusConfig:
    """The config as it is now; ConfigError if it cannot be used.

    If it was found, not named, it must be trusted again first: `toolbus trust`.
    """
    file = Path(config.file or "")
    fresh = usable_config(file) if config.reviewed is None else trusted_config(file)
    return with_profile(fresh, config.profile)


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        return (file.stat().st_mtime_ns, file.stat().st_size)
    except OSError:
        return None  # an editor may be replacing it
