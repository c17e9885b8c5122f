"""Whether the user agreed to a config that was only found: a config is code.

It names programs to run, and which secrets go to which URL. One that somebody named is agreed to by that.
One that was found, such as in a cloned repository, is used only once the user has agreed to exactly what it
and the files of its project say. What was judged is what is used: every file is read once.

The agreement is a file of its own for each config in the user's state folder, so that two commands never
write over each other's. A record that cannot be read, or is not the user's own, counts as none.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from toolbus.config.find import find_config, is_own, named_config, with_config_cwd
from toolbus.config.load import ConfigSource, config_in, require_usable, usable_config
from toolbus.config.location import is_mapping, printable
from toolbus.config.model import BusConfig
from toolbus.config.project import project_files
from toolbus.config.read import document_in, read_content
from toolbus.core.errors import ConfigNotTrusted
from toolbus.core.records import JSON
from toolbus.state import files as state


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Candidate:
    """A config, and the files of its project that it reads, all as they were at one moment."""

    config: BusConfig
    """What to use once the user agreed; it does not read the project's files again."""
    file: Path
    digests: Mapping[str, str | None]
    """What the agreement covers, by path from the config's folder; None is a file that does not exist."""


Agree: TypeAlias = Callable[[Candidate, str], None]
"""Gets a config and why it cannot be used yet; returns if the user agrees, raises otherwise."""


def candidate(path: Path) -> Candidate:
    """The config at that path, to be judged; nothing in it is expanded. ConfigError if it is wrong."""
    content = read_content(path)
    config = with_config_cwd(require_usable(config_in(document_in(content, path), path)))
    folder = path.absolute().parent
    contents = project_files(config)
    named = {os.path.relpath(file, folder): content for file, content in contents.items()}
    return Candidate(
        config=config.model_copy(update={"reviewed": contents}),
        file=_located(path),
        digests={name: _digest(held) for name, held in sorted({**named, path.name: content}.items())},
    )


def found_config(agree: Agree | None = None) -> BusConfig:
    """The config to use when none is named: that of `$TOOLBUS_CONFIG`, else the one that is found.

    One that was found and is not trusted is put to `agree`; without that, it raises ConfigNotTrusted. One in
    the user's own config folder is as good as named.
    """
    named, path = named_config(), find_config()
    return usable_config(path) if named or is_own(path.parent) else trusted_config(path, agree)


def bus_config(source: ConfigSource | None = None) -> BusConfig:
    """The config for a bus: what the source holds, by default the one that is found and trusted."""
    return found_config() if source is None else usable_config(source)


def trusted_config(path: Path, agree: Agree | None = None) -> BusConfig:
    """The config at that path, which was found; as `found_config`."""
    found = candidate(path)
    reason = distrust(found)
    if reason is not None:
        (agree or _refuse)(found, reason)
    return found.config


def distrust(found: Candidate) -> str | None:
    """Why it cannot be used yet, to be read after the name of the file; None if the user agreed to it."""
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
        return "is not trusted: the record of it is damaged"
    changed = [
        name for name in sorted({*known, *found.digests}) if known.get(name) != found.digests.get(name)
    ]
    if not changed:
        return None
    if changed == [found.file.name]:
        return "has changed since you trusted it"
    return f"is not trusted any more: {', '.join(map(printable, changed))} changed since"


def accept(found: Candidate) -> None:
    """Remember that the user agreed to it as it is now; OSError if that cannot be kept."""
    record = {"file": str(found.file), "digests": found.digests}
    state.write(_record_of(found.file), json.dumps(record, indent=1).encode())


def forget(path: Path) -> bool:
    """Take the agreement back; whether there was one."""
    return state.remove(_record_of(_located(path)))


def watched_files(config: BusConfig) -> list[Path]:
    """The files that have a say in what the config is; of one that was found also the record of it."""
    if config.file is None:
        return []
    file = Path(config.file)
    if config.reviewed is None:
        return [file]
    with suppress(OSError):  # without a state folder there is no record
        return [file, *map(Path, config.reviewed), state.location(_record_of(_located(file)))]
    return [file]


def _refuse(found: Candidate, reason: str) -> None:
    raise ConfigNotTrusted(str(found.file), reason)


def _located(path: Path) -> Path:
    # The folder is resolved, a link to the file is not: `.env`, relative paths and programs are looked for
    # beside the link, so that a link to a trusted config elsewhere is a config of its own.
    return path.expanduser().absolute().parent.resolve() / path.name


def _record_of(file: Path) -> str:
    return f"trust/{hashlib.sha256(os.fsencode(file)).hexdigest()}.json"


def _digest(content: bytes | None) -> str | None:
    return None if content is None else hashlib.sha256(content).hexdigest()


def _agreed(record: bytes, file: Path) -> Mapping[JSON, JSON] | None:
    """The digests in the record; None if it is damaged, or of another file."""
    try:
        value: JSON = json.loads(record)
    except (ValueError, RecursionError):
        return None
    if not is_mapping(value) or value.get("file") != str(file) or not is_mapping(value.get("digests")):
        return None
    digests: Mapping[JSON, JSON] = value["digests"]
    # An absent file and an empty record must not look alike.
    return digests if isinstance(digests.get(file.name), str) else None
