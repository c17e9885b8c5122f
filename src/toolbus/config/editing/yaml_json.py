"""Change one value in the text of a YAML or JSON document and keep every other character; write new YAML.

JSON is parsed as YAML to get the positions of its values. A change that the layout does not allow raises
ConfigError; the caller checks the result.
"""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from toolbus.config.hosts.read import without_comments
from toolbus.config.location import is_list, is_mapping
from toolbus.core.values.errors import ConfigError
from toolbus.core.values.records import JSON

if TYPE_CHECKING:
    import yaml


Entries: TypeAlias = Mapping[str, Mapping[str, JSON]]
"""Servers by alias, in our format."""

TEMPLATE = """\
# yaml-language-server: $schema=toolbus.schema.json
# The servers that toolbus connects to. `toolbus tools` lists their tools, `toolbus add` adds a server,
# `toolbus import` imports the servers of an editor on this machine.
servers:
  demo_notes:                        # an example without key or network; delete it when you like
    command: python
    args: ["-m", "toolbus.demo.notes", "--db", "notes.db"]
    trust_annotations: true          # its annotations are right: searching needs no approval

  # files:                           # a program on this machine
  #   command: npx
  #   args: ["-y", "@modelcontextprotocol/server-filesystem", "."]
  #   include: ["read_*", "list_*"]  # only these of its tools
  #   exclude: ["read_media_file"]   # and not this one

  # search:                          # a remote server
  #   url: https://example.com/mcp
  #   headers:
  #     Authorization: Bearer ${SEARCH_TOKEN}  # from the environment, or from .env beside this file
  #   required: true                 # do not start without it
  #   timeouts: {call: 60}

# How tools are named: auto, or a template.
# naming: "{server}_{tool}"

# Which calls are allowed, asked about or denied: the first rule that matches decides.
# policy: [{tools: "demo_notes/forget", do: deny}, {hint: destructive, do: ask}]

# Seconds, for all servers.
# timeouts: {connect: 60, list: 30, call: 300, close: 5, reconnect: 30}
"""
"""The content of a new `toolbus.yaml`."""

_WIDEST_LIST = 80
_INDENT = 2


def as_yaml(entries: Entries) -> str:
    """A document with these servers under `servers:`, in order."""
    return to_yaml({"servers": entries})


def to_yaml(value: JSON, *, flow: bool = False) -> str:
    """The value as YAML: blocks, short lists in brackets, double quotes where quotes are needed.

    With `flow` it is one line, for use inside another line.
    """
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: JSON) -> bool:
            return True

        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
            super().increase_indent(flow, False)

        def choose_scalar_style(self) -> str:
            style = super().choose_scalar_style()
            return '"' if style == "'" else style

        def represent_short_or_long(self, data: JSON) -> yaml.Node:
            style = flow or _is_short(data)
            return self.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=style)

        def represent_in_order(self, data: JSON) -> yaml.Node:
            return self.represent_mapping("tag:yaml.org,2002:map", data.items(), flow_style=flow or not data)

    Dumper.add_representer(list, Dumper.represent_short_or_long)
    Dumper.add_representer(tuple, Dumper.represent_short_or_long)
    Dumper.add_multi_representer(Mapping, Dumper.represent_in_order)
    text: str = yaml.dump(
        value,
        Dumper=Dumper,
        indent=_INDENT,
        width=10**9,
        allow_unicode=True,
        sort_keys=False,
        default_flow_style=flow,
    )
    return text.removesuffix("\n...\n").removesuffix("\n") if flow else text


def _is_short(values: JSON) -> bool:
    is_flat = not any(is_mapping(value) or is_list(value) for value in values)
    return is_flat and sum(len(str(value)) + 2 for value in values) <= _WIDEST_LIST


Steps: TypeAlias = tuple[str | int, ...]
"""The path to a value: keys of mappings, indexes in lists."""

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_COMMENT = {True: r"//[^\n]*|/\*.*?\*/", False: r"#[^\n]*"}


class NotEditable(ConfigError):
    """The layout of a file cannot be preserved."""


def add(text: str, steps: Steps, pairs: Mapping[str, JSON], *, is_json: bool) -> str:
    """The text with new pairs after the last one of the mapping at `steps`."""
    import yaml

    key, holder = _found(_root(text, is_json), steps)
    if isinstance(holder, yaml.SequenceNode):
        raise by_hand("its servers are a list")
    if not is_json and (not _is_flow(holder) or not holder.value):
        return _into_block(text, key, holder, pairs)
    for name, value in pairs.items():
        text = _into_braces(text, _found(_root(text, is_json), steps)[1], name, value, is_json)
    return text


def replace(text: str, steps: Steps, value: JSON, *, is_json: bool) -> str:
    """The text with another value at `steps`."""
    import yaml

    _, node = _found(_root(text, is_json), steps)
    if isinstance(node, yaml.CollectionNode) and not _is_flow(node):
        raise by_hand("its layout cannot be kept")
    start, end = node.start_mark.index, node.end_mark.index
    return text[:start] + (" " if start == end else "") + _inline(value, is_json) + text[end:]


def append(text: str, steps: Steps, value: JSON, *, is_json: bool) -> str:
    """The text with another item at the end of the list at `steps`, on its own line if the others are."""
    _, holder = _found(_root(text, is_json), steps)
    items = _items(holder)
    if not items:
        return replace(text, steps, [value], is_json=is_json)
    shown, last = _inline(value, is_json), items[-1][1]
    start, end = last.start_mark.index, last.end_mark.index
    line_start = text.rfind("\n", 0, start) + 1
    before, gap = text[line_start:start], text[end : holder.end_mark.index - 1]
    if not (is_json or _is_flow(holder)):
        if not re.fullmatch(r" *- +", before):
            raise by_hand("its layout cannot be kept")
        lines = text.splitlines(keepends=True)
        line = _with_its_comments(lines, _last_line(last), before.index("-"))
        newline = _newline(text)
        lines[line] = lines[line].rstrip("\r\n") + newline
        return "".join([*lines[: line + 1], before, shown, newline, *lines[line + 1 :]])
    if before.strip() or "\n" not in gap:
        return f"{text[:end]}, {shown}{text[end:]}"
    has_comma = "," in re.sub(_COMMENT[is_json], "", gap, flags=re.DOTALL)
    rest = gap.partition("\n")[0].rstrip("\r")
    head = text[:end] + ("" if has_comma else ",") + rest + _newline(text) + before
    return head + shown + ("," if has_comma else "") + text[end + len(rest) :]


def drop(text: str, steps: Steps, *, is_json: bool) -> str:
    """The text without the value at `steps` and the comments in it; those above it are kept."""
    key, holder = _found(_root(text, is_json), steps[:-1])
    items = _items(holder)
    for index, item in enumerate(items):
        if _is_named(item, steps[-1]) or index == steps[-1]:
            if is_json or _is_flow(holder):
                return _without_braced(text, holder, items, index, is_json)
            return _without_lines(text, key, items, index)
    raise by_hand("its layout cannot be kept")


def line_of(text: str, steps: Steps, *, is_json: bool) -> int | None:
    """The line of a value's key; None if it is not there."""
    try:
        key, _ = _found(_root(text, is_json), steps)
    except NotEditable:
        return None
    return key.start_mark.line + 1


def json_text(value: JSON) -> str:
    """A new JSON document."""
    return _lines(value, "\n", " " * _INDENT) + "\n"


def by_hand(problem: str) -> NotEditable:
    """The error for a file that must be edited by hand."""
    return NotEditable(f"cannot be edited: {problem}; edit it by hand")


def _root(text: str, is_json: bool) -> "yaml.Node":
    import yaml

    if is_json:
        # Tabs are an error in YAML, and so are halves of a character; here, only positions and keys count.
        text = _SURROGATE.sub(r"\\u0020", without_comments(text).replace("\t", " "))
    # The file of a host may have megabytes of JSON, which takes PyYAML's own parser seconds.
    fast = [yaml.CSafeLoader] if is_json and yaml.__with_libyaml__ else []
    for make in (*fast, yaml.SafeLoader):
        loader = make(text)
        try:
            root = loader.get_single_node()
        except yaml.YAMLError:
            continue
        finally:
            loader.dispose()
        if root is None:
            raise by_hand("it is empty")
        return root
    raise by_hand("its layout cannot be kept")


def _found(root: "yaml.Node", steps: Steps) -> "tuple[yaml.Node, yaml.Node]":
    """The key and value at `steps`; the root is its own key."""
    key = node = root
    for step in steps:
        for index, item in enumerate(_items(node)):
            if _is_named(item, step) or index == step:
                key, node = item
                break
        else:
            raise by_hand("its layout cannot be kept")
    return key, node


def _items(node: "yaml.Node") -> "list[tuple[yaml.Node, yaml.Node]]":
    """The pairs of a mapping; the items of a list, each as its own key."""
    import yaml

    if isinstance(node, yaml.MappingNode):
        return list(node.value)
    return [(item, item) for item in node.value] if isinstance(node, yaml.SequenceNode) else []


def _is_named(item: "tuple[yaml.Node, yaml.Node]", step: str | int) -> bool:
    return isinstance(step, str) and item[0] is not item[1] and item[0].value == step


def _into_block(text: str, key: "yaml.Node", holder: "yaml.Node", pairs: Mapping[str, JSON]) -> str:
    if not holder.value or holder.value == "null":
        # `servers:`, `servers: {}` or `servers: null`: the empty value is removed.
        start, end = holder.start_mark.index, holder.end_mark.index
        text = text[:start].rstrip(" ") + text[end:] if end > start else text
        column, line = key.start_mark.column + _INDENT, key.start_mark.line
    else:
        column = _items(holder)[0][0].start_mark.column
        line = _last_line(holder)
    lines = text.splitlines(keepends=True)
    line = _with_its_comments(lines, line, column)
    newline = _newline(text)
    if not lines[line].endswith("\n"):
        lines[line] += newline
    new = [" " * column + shown + newline for shown in to_yaml(pairs).splitlines()]
    return "".join([*lines[: line + 1], *new, *lines[line + 1 :]])


def _into_braces(text: str, holder: "yaml.Node", name: str, value: JSON, is_json: bool) -> str:
    """Add a pair after the last one between braces, on its own line if the others are."""
    opening, closing = holder.start_mark.index, holder.end_mark.index - 1
    newline, outer = _newline(text), _indent(text, opening)
    if not holder.value:
        unit = _unit(text)
        if text[opening + 1 : closing].strip() or not unit:
            return text[: opening + 1] + _pair(name, value, is_json) + text[closing:]
        pair = _pair(name, value, is_json, newline + outer + unit, unit)
        return text[: opening + 1] + newline + outer + unit + pair + newline + outer + text[closing:]
    items = _items(holder)
    start, end = items[0][0].start_mark.index, items[-1][1].end_mark.index
    if "\n" not in text[opening:start]:
        return text[:end] + ", " + _pair(name, value, is_json) + text[end:]
    inner = _indent(text, start)
    before = text[items[-1][1].start_mark.index : end]
    is_short = before.startswith("{") and "\n" not in before  # like the new one
    pair = _pair(name, value, is_json, newline + inner, "" if is_short else inner.removeprefix(outer))
    gap = text[end:closing]
    has_comma = "," in re.sub(_COMMENT[is_json], "", gap, flags=re.DOTALL)
    rest = gap.partition("\n")[0].rstrip("\r") if "\n" in gap else ""
    return (
        text[:end]
        + ("" if has_comma else ",")
        + rest
        + newline
        + inner
        + pair
        + ("," if has_comma else "")
        + text[end + len(rest) :]
    )


def _without_braced(
    text: str, holder: "yaml.Node", items: "Sequence[tuple[yaml.Node, yaml.Node]]", index: int, is_json: bool
) -> str:
    opening, closing = holder.start_mark.index, holder.end_mark.index - 1
    if len(items) == 1:
        return text[: opening + 1] + text[closing:]
    start, end = items[index][0].start_mark.index, items[index][1].end_mark.index
    is_last = index + 1 == len(items)
    following = closing if is_last else items[index + 1][0].start_mark.index
    own_line = re.match(rf"[ \t]*(,?)[ \t]*(?:{_COMMENT[is_json]})?[ \t]*\r?\n", text[end:following])
    line_start = text.rfind("\n", 0, start) + 1
    if own_line is None or text[line_start:start].strip():
        before = items[index - 1][1].end_mark.index
        return text[:before] + text[end:] if is_last else text[:start] + text[following:]
    kept = text[:line_start]
    if is_last and not own_line[1]:
        # The item above is now the last one.
        above = items[index - 1][1].end_mark.index
        kept = kept[:above] + kept[above:].replace(",", "", 1)
    return kept + text[end + own_line.end() :]


def _without_lines(
    text: str, key: "yaml.Node", items: "Sequence[tuple[yaml.Node, yaml.Node]]", index: int
) -> str:
    lines = text.splitlines(keepends=True)
    start, node = items[index]
    first = start.start_mark.line
    last = _with_its_comments(lines, max(_last_line(node), first), start.start_mark.column)
    below = last + 1 < len(lines) and not lines[last + 1].strip()
    # Remove one of two blank lines, or the one between this item and its neighbor.
    if index == 0 and len(items) > 1 and below:
        last += 1
    elif index and not lines[first - 1].strip() and (below or index + 1 == len(items)):
        first -= 1
    rest = lines[:first] + lines[last + 1 :]
    if len(items) == 1:
        colon = text.index(":", key.end_mark.index) - text.rfind("\n", 0, key.end_mark.index)
        line = key.start_mark.line
        rest[line] = f"{rest[line][:colon]} {'[]' if start is node else '{}'}{rest[line][colon:]}"
    return "".join(rest)


def _with_its_comments(lines: Sequence[str], line: int, column: int) -> int:
    """The last line of the comments below that are indented deeper than the column, and so belong to it."""
    while line + 1 < len(lines) and re.match(rf" {{{column + 1},}}#", lines[line + 1]):
        line += 1
    return line


def _is_flow(node: "yaml.Node") -> bool:
    style: Any = getattr(node, "flow_style", None)
    return style is True


def _last_line(node: "yaml.Node") -> int:
    """The line where the node's content ends; the end mark of a mapping is after the comments below it."""
    import yaml

    while isinstance(node, yaml.CollectionNode) and node.value and not _is_flow(node):
        last: JSON = node.value[-1]
        node = last[1] if isinstance(node, yaml.MappingNode) else last
    end = node.end_mark
    return end.line - 1 if end.column == 0 and end.line > node.start_mark.line else end.line


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _indent(text: str, at: int) -> str:
    start = text.rfind("\n", 0, at) + 1
    return text[start : start + len(text[start:]) - len(text[start:].lstrip(" \t"))]


def _unit(text: str) -> str:
    """The indentation of the first indented line of the document."""
    found = re.search(r"\n([ \t]+)\S", text)
    return found[1] if found else ""


def _inline(value: JSON, is_json: bool) -> str:
    if is_json or isinstance(value, bool):
        return json.dumps(value, ensure_ascii=False)
    import yaml

    shown = to_yaml(value, flow=True)
    with suppress(yaml.YAMLError):  # it cannot read all that it writes: `a?` in brackets
        if yaml.safe_load(f"[{shown}]") == [value]:
            return shown
    return json.dumps(value, ensure_ascii=False)


def _pair(name: str, value: JSON, is_json: bool, line: str = "", unit: str = "") -> str:
    """A key and its value: on one line if `unit` is empty, else each line begins with `line`."""
    if not is_json:
        return to_yaml({name: value}, flow=True)[1:-1]
    return f"{json.dumps(name, ensure_ascii=False)}: {_lines(value, line, unit)}"


def _lines(value: JSON, line: str, unit: str) -> str:
    """JSON over several lines; a list of plain values stays on one."""
    if is_mapping(value) and value and unit:
        pairs = [_pair(str(key), inner, True, line + unit, unit) for key, inner in value.items()]
        return "{" + ",".join(f"{line}{unit}{pair}" for pair in pairs) + f"{line}}}"
    if is_list(value) and unit and any(is_mapping(one) or is_list(one) for one in value):
        inner = [_lines(one, line + unit, unit) for one in value]
        return "[" + ",".join(f"{line}{unit}{one}" for one in inner) + f"{line}]"
    return json.dumps(value, ensure_ascii=False)
