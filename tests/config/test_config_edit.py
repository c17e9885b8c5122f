"""Servers are added, removed and switched in the text of a config, and nothing else in it changes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.inside.config import (
    document_in,
    new_document,
    servers_in,
    with_servers,
    with_switch,
    without_server,
)
from toolbus.errors import ConfigError

NEW: dict[str, Any] = {"new": {"command": "npx", "args": ["-y", "pkg"], "env": {"A": "b"}}}
WEB: dict[str, Any] = {"web": {"url": "https://x.test/mcp"}}

YAML = """\
# mine
servers:
  a:  # first
    command: x
    # about its arguments
    args: [b]

  # the second
  b: https://b.test  # remote

  c:
    command: y
naming: auto
"""
JSONC = """\
{
\t// mine
\t"mcpServers": {
\t\t"a": {"command": "x"}, // first
\t\t/* the second */
\t\t"b": {"command": "y"} // last
\t}
}
"""
JSON = """\
{
    "mcpServers": {
        "a": {
            "command": "x",
            "args": ["1", "2"]
        }
    },
    "other": [1, 2]
}
"""
TOML = """\
# mine
naming = "auto"  # as usual

[servers.a]
command = "x"  # first
args = [
  "b",
]

# the second
[servers.b]
url = "https://b.test"
enabled = false  # for now

[servers.b.headers]
X-Team = "a"
"""

NEW_IN_JSON = """\
        },
        "new": {
            "command": "npx",
            "args": ["-y", "pkg"],
            "env": {
                "A": "b"
            }
        }
    },"""
NEW_IN_YAML = """\
  new:
    command: npx
    args: [-y, pkg]
    env:
      A: b
"""
NEW_IN_TOML = """
[servers.new]
command = "npx"
args = ["-y", "pkg"]

[servers.new.env]
A = "b"
"""

YAML_POLICY = """\
policy:  # first match wins
  - {tools: "a/*", do: ask}
  - tools:
      - b/*
    do: deny  # never

servers:
  a: u
  b: v
"""
POLICY_BELOW = """\
servers:
  a:
    command: x
# what is asked
policy:
- {do: ask}  # all
"""
JSON_POLICY = """\
{
  "policy": [
    {"tools": "a/*", "do": "ask"}
  ],
  "servers": {
    "a": {"command": "x"}
  }
}
"""
TOML_POLICY = """\
# mine
[[policy]]
tools = "a/*"
do = "deny"

[policy.arguments.properties.path]
pattern = "^/etc"

[servers.a]
command = "x"

[[policy]]  # the rest
do = "ask"
"""
TOML_WITHOUT_A = TOML_POLICY.replace('[servers.a]\ncommand = "x"\n\n', "") + "[servers]\n"

Edit = Callable[[str, Path], str]


def add(text: str, path: Path) -> str:
    return with_servers(text, path, NEW)


def remove(alias: str) -> Edit:
    return lambda text, path: without_server(text, path, alias)


def off(alias: str) -> Edit:
    return lambda text, path: with_switch(text, path, alias, on=False)


def on(alias: str) -> Edit:
    return lambda text, path: with_switch(text, path, alias, on=True)


CASES: list[tuple[str, str, Edit, str, str]] = [
    (
        "x.yaml",
        YAML,
        remove("a"),
        "  a:  # first\n    command: x\n    # about its arguments\n    args: [b]\n\n",
        "",
    ),
    ("x.yaml", YAML, remove("b"), "  b: https://b.test  # remote\n", ""),
    ("x.yaml", YAML, remove("c"), "\n  c:\n    command: y\n", ""),
    ("x.yaml", YAML, off("a"), "    args: [b]\n", "    args: [b]\n    enabled: false\n"),
    ("x.yaml", YAML, off("b"), "https://b.test  #", '{url: "https://b.test", enabled: false}  #'),
    ("x.yaml", "servers: {a: {command: x}}\n", off("a"), "x}", "x, enabled: false}"),
    ("x.yaml", "servers: {a: {command: x}, b: u}\n", remove("b"), ", b: u", ""),
    ("x.yaml", "servers: {a: {command: x}, b: u}\n", remove("a"), "a: {command: x}, ", ""),
    ("x.yaml", "servers:\n  a: u  # c\nnaming: auto\n", remove("a"), ":\n  a: u  # c\n", ": {}\n"),
    (
        "x.yaml",
        "servers:\n- alias: a\n  url: u\n- alias: b\n  url: v\n",
        remove("a"),
        "- alias: a\n  url: u\n",
        "",
    ),
    ("x.yaml", "servers: {a: u}\n", add, "a: u", "a: u, new: {command: npx, args: [-y, pkg], env: {A: b}}"),
    (
        "x.yaml",
        "naming: auto\n",
        add,
        "naming: auto\n",
        "naming: auto\nservers:\n  new:\n    command: npx\n    args: [-y, pkg]\n    env:\n      A: b\n",
    ),
    (
        "x.yaml",
        "servers:\n  a: u\n  b: v\nenabled_servers: [a, b]\ntool_allowlist:\n  b: [t]\n",
        remove("b"),
        "  b: v\nenabled_servers: [a, b]\ntool_allowlist:\n  b: [t]\n",
        "enabled_servers: [a]\ntool_allowlist: {}\n",
    ),
    ("x.yaml", "servers: {a: u, b: v}\nenabled_servers: [a]\n", on("b"), "[a]", "[a, b]"),
    ("x.yaml", "servers:\n  a:\n    url: u\n    enabled: false # x\n", on("a"), "false #", "true #"),
    (
        ".mcp.json",
        JSON,
        add,
        "        }\n    },",
        NEW_IN_JSON,
    ),
    (".mcp.json", JSON, off("a"), '"2"]\n', '"2"],\n            "disabled": true\n'),
    (".mcp.json", '{"mcpServers": {"a": {"command": "x"}}}', remove("a"), '"a": {"command": "x"}', ""),
    (
        "x.json",
        '{\n  "servers": {}\n}\n',
        lambda text, path: with_servers(text, path, WEB),
        "{}",
        '{\n    "web": {\n      "url": "https://x.test/mcp"\n    }\n  }',
    ),
    ("x.toml", TOML, remove("a"), '[servers.a]\ncommand = "x"  # first\nargs = [\n  "b",\n]\n\n', ""),
    (
        "x.toml",
        TOML,
        remove("b"),
        TOML[TOML.index("[servers.b]") :],
        "",
    ),
    ("x.toml", TOML, on("b"), "enabled = false  #", "enabled = true  #"),
    ("x.toml", TOML, off("a"), '  "b",\n]\n', '  "b",\n]\nenabled = false\n'),
    (
        "x.toml",
        TOML,
        add,
        'X-Team = "a"\n',
        'X-Team = "a"\n' + NEW_IN_TOML,
    ),
    ("x.toml", '[servers]\na = "u"\n', off("a"), '"u"', '{url = "u", enabled = false}'),
    ("x.toml", '[servers.a]\nurl = "u"\n', remove("a"), '[servers.a]\nurl = "u"\n', "[servers]\n"),
    ("x.yaml", YAML_POLICY, add, "  b: v\n", "  b: v\n" + NEW_IN_YAML),
    ("x.yaml", YAML_POLICY, remove("b"), "  b: v\n", ""),
    ("x.yaml", YAML_POLICY, off("a"), "a: u", "a: {url: u, enabled: false}"),
    ("x.yaml", POLICY_BELOW, add, "    command: x\n", "    command: x\n" + NEW_IN_YAML),
    ("x.yaml", POLICY_BELOW, off("a"), "command: x\n", "command: x\n    enabled: false\n"),
    ("x.yaml", POLICY_BELOW, remove("a"), ":\n  a:\n    command: x\n", ": {}\n"),
    ("x.json", JSON_POLICY, off("a"), '"x"}', '"x", "enabled": false}'),
    ("x.json", JSON_POLICY, remove("a"), '\n    "a": {"command": "x"}\n  ', ""),
    (
        "x.json",
        JSON_POLICY,
        lambda text, path: with_servers(text, path, WEB),
        '{"command": "x"}',
        '{"command": "x"},\n    "web": {"url": "https://x.test/mcp"}',
    ),
    ("x.toml", TOML_POLICY, add, 'do = "ask"\n', 'do = "ask"\n' + NEW_IN_TOML),
    ("x.toml", TOML_POLICY, off("a"), 'command = "x"\n', 'command = "x"\nenabled = false\n'),
    ("x.toml", TOML_POLICY, remove("a"), TOML_POLICY, TOML_WITHOUT_A),
]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(("name", "text", "edit", "before", "after"), CASES)
def test_an_edit_changes_the_lines_of_its_server_only(
    name: str, text: str, edit: Edit, before: str, after: str, newline: str
) -> None:
    assert text.count(before) == 1
    expected = text.replace(before, after)

    changed = edit(text.replace("\n", newline), Path(name))

    assert changed == expected.replace("\n", newline)


def test_what_is_on_or_off_already_stays_as_it_is() -> None:
    assert with_switch(YAML, Path("x.yaml"), "a", on=True) == YAML
    assert with_switch(TOML, Path("x.toml"), "b", on=False) == TOML


@pytest.mark.parametrize("name", ["x.yaml", "x.json", "x.toml", ".mcp.json"])
def test_a_new_file_holds_the_servers_in_the_words_of_its_host(name: str) -> None:
    text = new_document(Path(name), {**NEW, **WEB})

    web = {"type": "http", **WEB["web"]} if name == ".mcp.json" else WEB["web"]
    key = "mcpServers" if name == ".mcp.json" else "servers"
    assert document_in(text.encode(), Path(name)) == {key: {**NEW, "web": web}}
    assert servers_in(text, Path(name)) == {**NEW, "web": web}


@pytest.mark.parametrize(
    ("name", "text", "edit"),
    [
        ("x.yaml", "servers:\n  a: &a {command: x}\n  b: *a\n", off("b")),
        ("x.yaml", "servers:\n  a: &a {command: x}\n  b: *a\n", remove("a")),
        ("x.toml", '[[servers]]\nalias = "a"\nurl = "u"\n', add),
        ("x.json", '{"servers": [{"alias": "a"}]}', add),
        (".mcp.json", JSONC, add),
        (".mcp.json", JSONC, off("b")),
        (".mcp.json", JSONC, remove("a")),
    ],
)
def test_what_cannot_be_edited_is_left_to_the_person(name: str, text: str, edit: Edit) -> None:
    with pytest.raises(ConfigError, match=r"^cannot be edited: .*; edit it by hand$"):
        edit(text, Path(name))
