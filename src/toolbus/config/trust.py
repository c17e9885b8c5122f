"""Whether the user trusts a discovered config: a config is code.

A config names programs to run, and the URLs that secrets are sent to. Naming a config is consent to it. A
discovered config, such as in a cloned repository, is used only after the user accepted its exact content and
its project files. Every file is read once, so the content that was checked is the content that is used.

Each file has its own trust record in the user's state folder, so that two commands never overwrite each
other's. A record that cannot be read, or that another user can write, is treated as missing. The local file
beside a config is reviewed with it; the config is reviewed alone, because the local file may be removed.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from toolbus.config.find import (
    base_of,
    find_config,
    is_own,
    layer_files,
    local_beside,
    named_config,
    project_files,
    with_config_cwd,
)
from toolbus.config.layers import ConfigFile
from toolbus.config.load import ConfigSource, config_of, require_usable, usable_config, with_profile
from toolbus.config.location import is_mapping, printable
from toolbus.config.model import BusConfig
from toolbus.config.stations import local_files
from toolbus.core.files import located
from toolbus.core.values.errors import ConfigError, ConfigNotTrusted, ToolbusError
from toolbus.core.values.records import JSON
from toolbus.state import files as state


class NotKept(ToolbusError):
    """The decision could not be saved in the user's state folder."""

    def __init__(self, error: OSError) -> None:
        what = f"{error.filename or 'the state folder'}: {error.strerror or type(error).__name__}"
        super().__init__(f"cannot save that you trust it: {what}; fix that, or pass the file with --config")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Candidate:
    """A snapshot of a config and the project files it reads."""

    config: BusConfig
    """The config to use once it is accepted; it does not read the project files again."""
    file: Path
    digests: Mapping[str, str | None]
    """The files covered by the trust record, by path from the config's folder; None is a missing file."""

    def has(self, content: bytes) -> bool:
        """Whether that is the content of the config file."""
        return self.digests[self.file.name] == _digest(content)


Agree: TypeAlias = Callable[[Candidate, str], None]
"""Called with a config and why it is not trusted; returns if the user accepts it, else raises."""


def candidate(path: Path) -> Candidate:
    """Read the config, or the local file beside one, for review, without expanding anything.

    ConfigError if it is invalid.
    """
    found = {one.file.name: one for one in candidates(base_of(path))}
    return found[path.name]


def candidates(path: Path) -> list[Candidate]:
    """The config at that path, and the local file beside it; the last one is the config with all files."""
    local = local_beside(path)
    layers = [ConfigFile.read(one) for one in (path, local) if one is not None]
    folder, contents = path.absolute().parent, dict[str, bytes | None]()
    found: list[Candidate] = []
    for count, layer in enumerate(layers, start=1):
        config = with_config_cwd(require_usable(config_of(*layers[:count])))
        contents |= project_files(config, contents)
        file = layer.path or path
        named = {os.path.relpath(one, folder): content for one, content in contents.items()}
        covered = sorted({**named, file.name: layer.content}.items())
        found.append(
            Candidate(
                config=config.model_copy(update={"reviewed": dict(contents)}),
                file=located(file),
                digests={name: _digest(content) for name, content in covered},
            )
        )
    return found


def found_config(agree: Agree | None = None) -> BusConfig:
    """The config to use when none is named: `$TOOLBUS_CONFIG`, else the discovered one.

    A discovered config that is not trusted is passed to `agree`; without `agree`, it raises
    ConfigNotTrusted. A config in the user's own config folder is always trusted.
    """
    named, path = named_config(), find_config()
    return usable_config(path) if named or is_own(path.parent) else trusted_config(path, agree)


def bus_config(source: ConfigSource | None = None, profile: str | None = None) -> BusConfig:
    """The config for a bus: from the source, or by default the discovered and trusted one.

    With a profile, it has the servers of that only.
    """
    return with_profile(found_config() if source is None else usable_config(source), profile)


def trusted_config(path: Path, agree: Agree | None = None) -> BusConfig:
    """The discovered config at that path; `agree` as in `found_config`."""
    found = candidates(path)
    for one in found:
        if (reason := distrust(one)) is not None:
            (agree or _refuse)(one, reason)
    return found[-1].config


def distrust(found: Candidate) -> str | None:
    """The reason why it is not trusted, as the end of a sentence about the file; None if it is trusted."""
    if is_own(found.file.parent):
        return None
    try:
        record = state.read(_record_of(found.file))
    except OSError as error:
        return f"is not trusted: its record {str(error.filename)!r} {error.strerror or 'cannot be read'}"
    if record is None:
        return "is not trusted yet"
    known = _agreed(record, found.file)
    if known is None:
        return "is not trusted: its trust record is damaged"
    changed = [
        name for name in sorted({*known, *found.digests}) if known.get(name) != found.digests.get(name)
    ]
    if not changed:
        return None
    if changed == [found.file.name]:
        return "has changed since you trusted it"
    return f"is no longer trusted: {', '.join(map(printable, changed))} changed"


def accept(found: Candidate) -> None:
    """Record that the user trusts its current content; OSError if the record cannot be written."""
    record = {"file": str(found.file), "digests": found.digests}
    state.write(_record_of(found.file), json.dumps(record, indent=1).encode())


def save_trust(found: Candidate) -> None:
    """Record that the user trusts it; `NotKept` if that cannot be saved."""
    try:
        accept(found)
    except OSError as error:
        raise NotKept(error) from error


def trust_content(path: Path, content: bytes) -> str | None:
    """Trust a file to which we wrote the content for the user; why it is not trusted, None if it is now."""
    try:
        found = candidate(path)
        if not found.has(content):
            return f"{path} was changed meanwhile, so it is not trusted"
        save_trust(found)
    except (ConfigError, NotKept) as error:
        return str(error)
    return None


def is_trusted(path: Path) -> bool:
    """Whether the user trusts the config with its current content."""
    try:
        return distrust(candidate(path)) is None
    except ConfigError:
        return False


def forget(path: Path) -> bool:
    """Delete the trust record; return whether there was one."""
    return state.remove(_record_of(located(path)))


def watched_files(config: BusConfig) -> list[Path]:
    """The files that determine the config; for a discovered one also their trust records."""
    files = layer_files(config)
    with suppress(ConfigError):  # of a package that became too large
        files += [Path(path) for entry in config.stations for path in local_files(entry)]
    files += [Path(entry.path) for entry in config.tools.values()]
    if config.file is None or config.reviewed is None:
        return files
    with suppress(OSError):  # without a state folder there is no record
        records = [state.location(_record_of(located(file))) for file in layer_files(config)[:2]]
        return [*files, *map(Path, config.reviewed), *records]
    return files


def _refuse(found: Candidate, reason: str) -> None:
    raise ConfigNotTrusted(str(found.file), reason)


def _record_of(file: Path) -> str:
    return f"trust/{hashlib.sha256(os.fsencode(file)).hexdigest()}.json"


def _digest(content: bytes | None) -> str | None:
    return None if content is None else hashlib.sha256(content).hexdigest()


def _agreed(record: bytes, file: Path) -> Mapping[JSON, JSON] | None:
    """The digests in the record; None if it is damaged or belongs to another file."""
    try:
        value: JSON = json.loads(record)
    except (ValueError, RecursionError):
        return None
    if not is_mapping(value) or value.get("file") != str(file) or not is_mapping(value.get("digests")):
        return None
    digests: Mapping[JSON, JSON] = value["digests"]
    # A missing file and an empty record must not look alike.
    return digests if isinstance(digests.get(file.name), str) else None
