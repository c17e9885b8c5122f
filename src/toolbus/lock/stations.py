"""The hooks of a config next to the lockfile: any difference is on hold, as a whole.

A guard that is missing protects nothing. So a hook that was added, removed, moved or changed holds all of
them, and the bus refuses calls until somebody has approved the list.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from toolbus.config import BusConfig, LockMode
from toolbus.config.find import layer_files
from toolbus.config.stations import StationCode
from toolbus.core.text.canonical import digest_of
from toolbus.core.values.records import JSONObject
from toolbus.lock.file import Lockfile, lock_path, read_lock
from toolbus.schema.values import entries_of


def hook_locks(config: BusConfig) -> dict[Path, LockMode]:
    """The lockfiles that cover the hooks of a config, which may not exist, with the mode of each."""
    found: dict[Path, LockMode] = {}
    for layer in config.rules:
        alone = layer.model_copy(update={"extends": None, "base": None})
        for file in layer_files(alone):
            if file.is_file():
                found[lock_path(str(file))] = layer.lock or "block"
    return found


def hooks_by_lock(codes: Sequence[StationCode]) -> dict[Path, list[JSONObject]]:
    """The hooks as the lockfile beside the file of each has them."""
    found: dict[Path, list[JSONObject]] = {}
    for code in codes:
        if code.entry.file is not None:
            found.setdefault(lock_path(code.entry.file), []).append(code.locked)
    return found


def held_hooks(
    config: BusConfig, codes: Sequence[StationCode], known: Iterable[Lockfile | None]
) -> tuple[LockMode, str] | None:
    """Why the hooks of a config are on hold, and in which mode; None if they are as in the lock.

    `known` are the lockfiles that were read already.
    """
    now, read = hooks_by_lock(codes), {file.path: file for file in known if file is not None}
    for path, mode in hook_locks(config).items():
        file = None if mode == "off" else read.get(path) or read_lock(path)
        if file is None:
            continue
        if changes := list(hook_changes(file.hooks, now.get(path, []))):
            return mode, f"hooks differ from {path.name}: {'; '.join(changes)}; review them: toolbus lock"
    return None


def hook_changes(before: Sequence[JSONObject], now: Sequence[JSONObject]) -> Iterator[str]:
    """What differs between two lists of hooks, each difference in words."""
    if [digest_of(dict(one)) for one in before] == [digest_of(dict(one)) for one in now]:
        return
    old, new = _named(before), _named(now)
    yield from (f"{name} was removed" for name in old if name not in new)
    yield from (f"{name} is new" for name in new if name not in old)
    same = [name for name in new if name in old]
    for name in same:
        yield from _changed(name, old[name], new[name])
    if [name for name in old if name in new] != same:
        yield "their order changed"


def _named(hooks: Sequence[JSONObject]) -> dict[str, JSONObject]:
    """The hooks by name; one that is used several times has a number."""
    found: dict[str, JSONObject] = {}
    for hook in hooks:
        name, number = str(hook.get("use")), 2
        while name in found:
            name, number = f"{hook.get('use')} ({number})", number + 1
        found[name] = hook
    return found


def _changed(name: str, old: JSONObject, new: JSONObject) -> Iterator[str]:
    if digest_of(entries_of(old.get("options"))) != digest_of(entries_of(new.get("options"))):
        yield f"options of {name} changed"
    if (old.get("target"), old.get("package")) != (new.get("target"), new.get("package")):
        yield f"{name} is of another package"
    before, now = entries_of(old.get("files")), entries_of(new.get("files"))
    yield from (f"{file} changed" for file in sorted({*before, *now}) if before.get(file) != now.get(file))
