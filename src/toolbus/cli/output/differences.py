"""Show how servers differ from the lockfile: texts word by word, arguments by what the change means."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from rich.text import Text

from toolbus.cli.output.screen import Screen, escaped_json, one_line, visible
from toolbus.core.text.display import counted
from toolbus.core.values.records import JSON
from toolbus.lock.changes import EFFECTS, DefinitionChange, LockDifference, word_changes
from toolbus.lock.drift import KIND_OF
from toolbus.lock.file import LockedServer
from toolbus.lock.launch import launch_line

_STATUS = {"added": ("new", "green"), "removed": ("removed", "red"), "changed": ("changed", "yellow")}
_CONTEXT = 40
"""How many characters of unchanged text are shown on each side of a change."""
_MOST_LINES = 20
"""How many tools, prompts and templates of new servers have a line of their own."""
_MOST_NAMES = 5
"""How many names of a new server are shown of each kind."""


def print_differences(
    screen: Screen,
    differences: Sequence[LockDifference],
    servers: Mapping[str, LockedServer],
    known: Container[str],
) -> None:
    """Print each difference with its changes below; on a server that is not `known`, one line each.

    If that would be too many lines, such a server has one for each kind.
    """
    new = [one for one in differences if one.status == "added" and one.server not in known]
    is_long = sum(one.kind in KIND_OF for one in new) > _MOST_LINES
    for (server, kind), group in _grouped(new).items():
        if is_long and kind in KIND_OF:
            names = _some([one.name for one in group])
            screen.print(_head(f"{server}: {counted(len(group), kind)}", "added", names))
            continue
        for one in group:
            screen.print(_head(one.label, "added", _about(one, servers)))
    for one in differences:
        if one not in new:
            is_bare = one.status == "added" and not one.changes
            screen.print(_head(one.label, one.status, _about(one, servers) if is_bare else ""))
            for change in one.changes:
                screen.print(Text("  ") + _change_text(change))


def _grouped(differences: Iterable[LockDifference]) -> dict[tuple[str, str], list[LockDifference]]:
    groups: dict[tuple[str, str], list[LockDifference]] = {}
    for one in differences:
        groups.setdefault((one.server, one.kind), []).append(one)
    return groups


def _some(names: Sequence[str]) -> str:
    """The first of many names."""
    more = f", and {len(names) - _MOST_NAMES} more; --json lists them" if len(names) > _MOST_NAMES else ""
    return one_line(", ".join(names[:_MOST_NAMES])) + more


def _head(label: str, status: str, about: str) -> Text:
    word, style = _STATUS[status]
    line = Text.assemble((visible(label), "bold"), "  ", (word, style))
    return line.append(f"  {about}", "dim") if about else line


def difference_json(one: LockDifference) -> JSON:
    """A difference for `--json`."""
    changes = [
        {"at": change.at, "effect": change.effect, "before": change.before, "after": change.after}
        for change in one.changes
    ]
    return {
        "server": one.server,
        "kind": one.kind,
        "name": one.name,
        "status": one.status,
        "changes": changes,
    }


def plain_change(change: DefinitionChange) -> str:
    """A change in one line of plain text."""
    return _change_text(change).plain


def _about(one: LockDifference, servers: Mapping[str, LockedServer]) -> str:
    """What is new, in one line."""
    server = servers[one.server]
    if one.kind == "launch":
        return one_line(launch_line(dict(server.launch)))
    if one.kind == "package":
        return one_line(" ".join(map(str, server.package.values())))
    if one.kind == "instructions":
        return one_line(server.instructions)
    definition = server.definitions[KIND_OF[one.kind]].get(one.name, {})
    return one_line(str(definition.get("description") or definition.get("title") or ""))


def _change_text(change: DefinitionChange) -> Text:
    head = Text(f"{visible(change.at)}: ")
    if change.is_text:
        return head + _words(change.before, change.after)
    if change.effect == "changed":
        return head + Text(_shown(change.before), "red") + Text(" -> ") + Text(_shown(change.after), "green")
    if change.effect in ("widened", "narrowed"):
        before, after = (_shown(value, "anything") for value in (change.before, change.after))
        between = f": {before} -> {after}"
        return head + Text(EFFECTS[change.effect], "yellow") + Text(between)
    if change.effect == "added" and isinstance(change.after, str):
        return head + _words("", change.after)
    value = change.before if change.effect == "removed" else change.after
    style = {"removed": "red", "required": "yellow"}.get(change.effect, "green")
    new = "new, required" if change.effect == "required" and value is not None else EFFECTS[change.effect]
    return head + Text(new, style) + Text("" if value is None else f": {_shown(value)}")


def _shown(value: JSON, missing: str = "nothing") -> str:
    return missing if value is None else escaped_json(value)


def _words(before: str, after: str) -> Text:
    parts = word_changes(before, after)
    line = Text()
    for index, (kind, text) in enumerate(parts):
        for piece, style in _piece(kind, visible(text), is_first=index == 0, is_last=index == len(parts) - 1):
            line.append(piece, style)
    first, *rest = line.split("\n", allow_blank=True)
    return Text("\n").join([first, *(Text("    ") + piece if piece else piece for piece in rest)])


def _piece(kind: str, text: str, *, is_first: bool, is_last: bool) -> Iterator[tuple[str, str]]:
    """A part of the text with its style; long unchanged parts are shortened, changed ones never."""
    if kind == "removed":
        yield f"[-{text}-]", "red"
    elif kind == "added":
        yield f"{{+{text}+}}", "green"
    elif len(text) <= 2 * _CONTEXT:
        yield text, ""
    else:
        yield ("" if is_first else text[:_CONTEXT]), ""
        yield "...", "dim"
        yield ("" if is_last else text[-_CONTEXT:]), ""
