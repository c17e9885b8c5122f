"""The hooks of a config next to the lockfile: any difference is on hold, as a whole.

A guard that is missing protects nothing. So a hook that was added, removed, moved or changed holds all of
them, and the bus refuses calls until somebody has approved the list.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from toolbus.config import BusConfig, LockMode
from toolbus.config.find import layer_files
from toolbus.config.stations import StationCode
from toolbus.core.text.canonical import digest_of
from toolbus.core.values.records import JSON, OWN, JSONObject
from toolbus.lock.changes import DefinitionChange, LockDifference
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
    """The mode and the reason if the hooks of a config are on hold; None if they are as in the lock.

    `known` are the lockfiles that were read already.
    """
    now, read = hooks_by_lock(codes), {file.path: file for file in known if file is not None}
    for path, mode in hook_locks(config).items():
        file = None if mode == "off" else read.get(path) or read_lock(path)
        if file is None:
            continue
        if differences := hook_differences(file.hooks, now.get(path, [])):
            changes = "; ".join(map(_in_words, differences))
            return mode, f"the hooks differ from {path.name} ({changes}); review them: toolbus lock"
    return None


def hook_differences(before: Sequence[JSONObject], now: Sequence[JSONObject]) -> list[LockDifference]:
    """The differences between two lists of hooks."""
    if [digest_of(dict(one)) for one in before] == [digest_of(dict(one)) for one in now]:
        return []
    old, new = _named(before), _named(now)
    found = [_difference(name, "removed") for name in old if name not in new]
    for name, hook in new.items():
        if name not in old:
            found.append(_difference(name, "added", _changes({}, hook)))
        elif changes := _changes(old[name], hook):
            found.append(_difference(name, "changed", changes))
    orders = [name for name in old if name in new], [name for name in new if name in old]
    if orders[0] != orders[1]:
        order = DefinitionChange(at="order", effect="changed", before=orders[0], after=orders[1])
        found.append(_difference("", "changed", [order]))
    return found


def _difference(
    name: str, status: Literal["added", "removed", "changed"], changes: Iterable[DefinitionChange] = ()
) -> LockDifference:
    return LockDifference(server=OWN, kind="hook", name=name, status=status, changes=tuple(changes))


def _changes(old: JSONObject, new: JSONObject) -> list[DefinitionChange]:
    """The differences between two entries for the same code."""
    was, now = _parts(old), _parts(new)
    return [
        DefinitionChange(at=key, effect="changed" if key in was else "added", before=was.get(key), after=one)
        if (one := now.get(key)) is not None
        else DefinitionChange(at=key, effect="removed", before=was[key])
        for key in sorted({*was, *now})
        if was.get(key) != now.get(key)
    ]


def _parts(hook: JSONObject) -> dict[str, JSON]:
    options, files = entries_of(hook.get("options")), entries_of(hook.get("files"))
    plain = {key: hook[key] for key in ("target", "package") if key in hook}
    return {
        **{f"option {key}": value for key, value in options.items()},
        **{f"file {name}": digest for name, digest in files.items()},
        **plain,
    }


def _named(hooks: Sequence[JSONObject]) -> dict[str, JSONObject]:
    """The hooks by name; one that is used several times has a number."""
    found: dict[str, JSONObject] = {}
    for hook in hooks:
        name, number = str(hook.get("use")), 2
        while name in found:
            name, number = f"{hook.get('use')} ({number})", number + 1
        found[name] = hook
    return found


def _in_words(difference: LockDifference) -> str:
    if difference.status == "changed":
        places = ", ".join(change.at for change in difference.changes)
        return f"{difference.name or 'all'}: {places} changed"
    return f"{difference.name} {'is new' if difference.status == 'added' else 'was removed'}"
