"""Write our own file as a person would: servers as YAML, alone or among what somebody has written already.

What is written reads back as exactly what was asked for, or is not written: it is parsed again first.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from toolbus.config.place import is_list, is_mapping
from toolbus.errors import ConfigError
from toolbus.records import JSON

if TYPE_CHECKING:
    import yaml

Entries: TypeAlias = Mapping[str, Mapping[str, JSON]]
"""Servers by alias, in our words."""

TEMPLATE = """\
# The servers that toolbus connects to. `toolbus tools` lists what they offer;
# `toolbus import` brings over what an editor on this machine has.
servers:
  demo_notes:                        # needs no key and no network; here to try, delete it when you like
    command: python
    args: ["-m", "toolbus.demo.notes", "--db", "notes.db"]

  # files:                           # a program on this machine
  #   command: npx
  #   args: ["-y", "@modelcontextprotocol/server-filesystem", "."]
  #   include: ["read_*", "list_*"]  # only these of its tools
  #   exclude: ["read_media_file"]   # and not this one

  # search:                          # a server elsewhere
  #   url: https://example.com/mcp
  #   headers:
  #     Authorization: Bearer ${SEARCH_TOKEN}  # from the environment, or from .env beside this file
  #   required: true                 # do not start without it
  #   timeouts: {call: 60}

# How tools are called: auto, or a template.
# naming: "{server}_{tool}"

# Seconds, for all servers.
# timeouts: {connect: 60, list: 30, call: 300, close: 5, recover: 30}
"""
"""What a new `toolbus.yaml` says."""

_WIDEST_LIST = 80
_INDENT = 2


def as_yaml(entries: Entries) -> str:
    """A document with these servers under `servers:`, in their order."""
    return _dumped({"servers": entries})


def servers_in(text: str) -> Mapping[str, JSON]:
    """What stands under `servers:` in the text of a config, by alias; ConfigError if that is no mapping."""
    return _servers(_parsed(text))


def with_servers(text: str, entries: Entries) -> str:
    """The text of a config with these servers added at the end of its `servers:`, and nothing else changed.

    Raises ConfigError when one of the aliases is there already, and when the layout does not permit it:
    then they have to be added by hand.
    """
    before = _parsed(text)
    known = _servers(before)
    for alias in entries:
        if alias in known:
            raise ConfigError("is in the file already; rename one", server=alias)
    if not entries:
        return text
    after = _inserted(text, entries)
    if not _says(after, {**before, "servers": {**known, **entries}}):
        raise _by_hand("its layout cannot be kept")
    return after


def _inserted(text: str, entries: Entries) -> str:
    """The text with the entries behind the last server."""
    import yaml

    key, value = _servers_node(text)
    if isinstance(value, yaml.ScalarNode) or not value.value:
        # `servers:`, `servers: {}` or `servers: null`: what stands for nothing goes.
        start, end = value.start_mark.index, value.end_mark.index
        text = text[:start].rstrip(" ") + text[end:] if end > start else text
        column, line = key.start_mark.column + _INDENT, key.start_mark.line
    elif _is_flow(value):
        raise _by_hand("its servers stand in braces")
    else:
        column = value.value[0][0].start_mark.column
        line = _last_line(value)
    lines = text.splitlines(keepends=True)
    while line + 1 < len(lines) and re.match(rf" {{{column + 1},}}#", lines[line + 1]):
        line += 1  # a comment that belongs to the server above
    newline = "\r\n" if "\r\n" in text else "\n"
    if not lines[line].endswith("\n"):
        lines[line] += newline
    new = [" " * column + new_line + newline for new_line in _dumped(entries).splitlines()]
    return "".join([*lines[: line + 1], *new, *lines[line + 1 :]])


def _says(text: str, expected: Mapping[JSON, JSON]) -> bool:
    """Whether the text is this very document, its servers in this order."""
    try:
        document = _parsed(text)
        return document == expected and list(_servers(document)) == list(_servers(expected))
    except ConfigError:
        return False


def _servers_node(text: str) -> "tuple[yaml.Node, yaml.MappingNode | yaml.ScalarNode]":
    import yaml

    loader = yaml.SafeLoader(text)
    try:
        root = loader.get_single_node()
    finally:
        loader.dispose()
    if isinstance(root, yaml.MappingNode):
        for key, value in root.value:
            if key.value == "servers" and isinstance(value, yaml.MappingNode | yaml.ScalarNode):
                return key, value
    raise _by_hand("it has no mapping 'servers'")


def _is_flow(node: "yaml.CollectionNode") -> bool:
    return node.flow_style is True  # pyright: ignore[reportUnknownMemberType]  untyped stub


def _last_line(node: "yaml.Node") -> int:
    """The line with the last word of the node: the end of a mapping lies behind the comments below it."""
    import yaml

    while isinstance(node, yaml.CollectionNode) and node.value and not _is_flow(node):
        last: JSON = node.value[-1]
        node = last[1] if isinstance(node, yaml.MappingNode) else last
    end = node.end_mark
    return end.line - 1 if end.column == 0 and end.line > node.start_mark.line else end.line


def _servers(document: Mapping[JSON, JSON]) -> Mapping[str, JSON]:
    servers = document.get("servers", document)
    if servers is None:
        return {}
    if servers is document or not is_mapping(servers):
        raise _by_hand("it has no mapping 'servers'")
    return servers


def _parsed(text: str) -> Mapping[JSON, JSON]:
    import yaml

    try:
        document: JSON = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):  # it quotes the text around, hence `from None`
        raise _by_hand("it is not valid YAML") from None
    if not is_mapping(document):
        raise _by_hand("it has no mapping 'servers'")
    return document


def _by_hand(problem: str) -> ConfigError:
    return ConfigError(f"servers cannot be added: {problem}; add them by hand")


def _dumped(value: JSON) -> str:
    """The value as YAML: blocks, short lists in brackets, double quotes where quotes are needed."""
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
            return self.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=_is_short(data))

        def represent_in_order(self, data: JSON) -> yaml.Node:
            return self.represent_mapping("tag:yaml.org,2002:map", data.items(), flow_style=not data)

    Dumper.add_representer(list, Dumper.represent_short_or_long)
    Dumper.add_representer(tuple, Dumper.represent_short_or_long)
    Dumper.add_multi_representer(Mapping, Dumper.represent_in_order)
    return yaml.dump(value, Dumper=Dumper, indent=_INDENT, width=10**9, allow_unicode=True, sort_keys=False)


def _is_short(values: JSON) -> bool:
    is_flat = not any(is_mapping(value) or is_list(value) for value in values)
    return is_flat and sum(len(str(value)) + 2 for value in values) <= _WIDEST_LIST
