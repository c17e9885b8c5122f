"""Write YAML as a person would: the servers of a config, and the template of a new one."""

from collections.abc import Mapping
from typing import TypeAlias

from toolbus.config.location import is_list, is_mapping
from toolbus.core.values.records import JSON

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
    trust: true                      # its annotations are right: searching needs no approval

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
# timeouts: {connect: 60, list: 30, call: 300, close: 5, recover: 30}
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
