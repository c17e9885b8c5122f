"""The code behind the entries of `hooks`: files beside the config, or an installed package.

Nothing is imported. A file is read once: the bytes that are reviewed and locked are the bytes that run. A
module of the config's folder takes precedence over an installed one. Python itself never
searches that folder.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from toolbus.config.settings.stations import StationEntry
from toolbus.core.files import read_plain
from toolbus.core.values.records import JSON

if TYPE_CHECKING:
    from toolbus.config.model import BusConfig

GROUP = "toolbus.stations"
"""The group of entry points; one that no config names is never loaded."""
LARGEST = 4 << 20
"""Bytes of all files of one package in a config's folder."""
MOST_FILES = 200


@dataclass(frozen=True, kw_only=True)
class StationCode:
    """One entry of `hooks`, and the code that it names."""

    entry: StationEntry
    target: str
    """`module:name`; an entry point names one."""
    package: str | None = None
    """The installed package with the entry point."""
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes], repr=False)
    """The files beside the config by their path from its folder; empty for an installed package."""

    @cached_property
    def digests(self) -> dict[str, str]:
        """The digest of each of its files."""
        return {name: f"sha256:{sha256(content).hexdigest()}" for name, content in self.files.items()}

    @property
    def paths(self) -> tuple[str, ...]:
        """The absolute paths of its files."""
        return tuple(os.path.join(self.entry.folder or "", name) for name in self.files)

    @property
    def locked(self) -> dict[str, JSON]:
        """The entry as a lockfile has it: the code, the options without secrets, and digests of files."""
        entry_point = {} if self.package is None else {"target": self.target, "package": self.package}
        options = {"options": self.entry.shown_options} if self.entry.options else {}
        return {
            "use": self.entry.use,
            **options,
            **entry_point,
            **({"files": self.digests} if self.files else {}),
        }

    @property
    def source(self) -> str:
        """The origin of the code, for people."""
        if self.files:
            return ", ".join(self.files)
        installed = "an installed package"
        return installed if self.package is None else f"{installed}, {self.package} ({self.target})"


def station_code(entry: StationEntry, known: Mapping[str, bytes | None] | None = None) -> StationCode:
    """The code of an entry; ConfigError if there is none.

    `known` are the files that a person has reviewed, by absolute path; then no other file is read.
    """
    if entry.module is None:
        return _entry_point(entry)
    folder, paths = entry.folder or Path(), [os.path.normpath(path) for path in local_files(entry)]
    if known is not None and (changed := _unreviewed(entry, paths, known)) is not None:
        raise entry.error(f"{changed} has changed since you reviewed it; run 'toolbus trust'", "use")
    contents = {path: _content(entry, path) if known is None else known[path] or b"" for path in paths}
    if sum(map(len, contents.values())) > LARGEST:
        raise entry.error(f"its package has more than {LARGEST:,} bytes of code; install it instead", "use")
    files = {
        os.path.relpath(path, folder).replace(os.sep, "/"): content for path, content in contents.items()
    }
    return StationCode(entry=entry, target=entry.use, files=files)


def station_codes(config: "BusConfig") -> tuple[StationCode, ...]:
    """The code of all stations of a config, in order; the user's own config needs no review."""
    own = () if config.user is None else (station_code(entry) for entry in config.user.hooks)
    return (*own, *(station_code(entry, config.reviewed) for entry in config.hooks))


def local_files(entry: StationEntry) -> Iterator[str]:
    """The paths of the files beside the config that an entry runs: its module, or all of its package."""
    if entry.module is None or entry.folder is None:
        return
    folder, steps = entry.folder, entry.module.split(".")
    whole = folder.joinpath(*steps)
    is_local = whole.with_suffix(".py").is_file() or (whole / "__init__.py").is_file()
    if not is_local:
        return
    if len(steps) == 1 and not (whole / "__init__.py").is_file():
        yield str(whole.with_suffix(".py"))
        return
    found: list[str] = []
    for base, folders, names in os.walk(folder / steps[0]):
        folders[:] = sorted(name for name in folders if name.isidentifier() and name != "__pycache__")
        found += (os.path.join(base, name) for name in sorted(names) if name.endswith(".py"))
        if len(found) > MOST_FILES:
            raise entry.error(f"its package has more than {MOST_FILES} files; install it instead", "use")
    yield from found


def _unreviewed(entry: StationEntry, paths: Sequence[str], known: Mapping[str, bytes | None]) -> str | None:
    """A file of an entry that is there and was not reviewed, or the other way around."""
    top = os.path.normpath((entry.folder or Path()) / str(entry.module).partition(".")[0])
    reviewed = (path for path in known if path == f"{top}.py" or path.startswith(top + os.sep))
    added = next((path for path in paths if known.get(path) is None), None)
    return added or (next(reviewed, None) if not paths else None)


def _content(entry: StationEntry, path: str) -> bytes:
    try:
        return read_plain(Path(path), LARGEST)
    except OSError as error:
        raise entry.error(f"{path} cannot be read: {error.strerror or error}", "use") from None


def _entry_point(entry: StationEntry) -> StationCode:
    from importlib.metadata import entry_points

    found = {
        (point.value, point.dist.name if point.dist else ""): point
        for point in entry_points(group=GROUP, name=entry.use)
    }
    if not found:
        named = sorted({point.name for point in entry_points(group=GROUP)})
        known = f"; installed: {', '.join(named)}" if named else ""
        raise entry.error(
            f"no installed package has an entry point {entry.use!r} in {GROUP}{known}; "
            "install one, or write module:name",
            "use",
        )
    if len(found) > 1:
        packages = ", ".join(sorted(package for _, package in found))
        problem = f"several packages have the entry point {entry.use!r}: {packages}; write module:name"
        raise entry.error(problem, "use")
    ((value, package),) = found
    return StationCode(entry=entry, target=value.replace(" ", ""), package=package)
