"""Our own file is written as a person would, and existing text stays as it is."""

import random
import re
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.inside.config import TEMPLATE, as_yaml, servers_in, with_servers
from toolbus.config import BusConfig, ServerConfig, load_config
from toolbus.errors import ConfigError

DEMO = ServerConfig(
    alias="demo_notes",
    transport="stdio",
    command="python",
    args=("-m", "toolbus.demo.notes", "--db", "notes.db"),
    trust_annotations=True,
)
YAML = Path("toolbus.yaml")
NEW: dict[str, Any] = {"new": {"command": "npx", "args": ["-y", "pkg"]}}


def loaded(folder: Path, text: str) -> BusConfig:
    path = folder / "toolbus.yaml"
    path.write_text(text, encoding="utf-8")
    return load_config(path)


def test_servers_are_written_in_blocks_with_quotes_only_where_they_are_needed() -> None:
    entries: dict[str, Any] = {
        "files": {
            "command": "npx",
            "args": ["-y", "@scope/pkg", ".", "8080", "${PKG}"],
            "env": {"TOKEN": "${TOKEN}", "DEBUG": "true", "EMPTY": ""},
            "timeouts": {"call": 2.5},
        },
        "on": {
            "url": "https://x.test/mcp?a=b",
            "headers": {"Authorization": "Bearer ${T}"},
            "enabled": False,
        },
        "long": {"command": "C:\\x y\\z.exe", "args": ["--first=" + "x" * 40, "--second=" + "y" * 40]},
    }

    assert as_yaml(entries) == (
        "servers:\n"
        "  files:\n"
        "    command: npx\n"
        '    args: [-y, "@scope/pkg", ., "8080", "${PKG}"]\n'
        "    env:\n"
        "      TOKEN: ${TOKEN}\n"
        '      DEBUG: "true"\n'
        '      EMPTY: ""\n'
        "    timeouts:\n"
        "      call: 2.5\n"
        '  "on":\n'
        "    url: https://x.test/mcp?a=b\n"
        "    headers:\n"
        "      Authorization: Bearer ${T}\n"
        "    enabled: false\n"
        "  long:\n"
        "    command: C:\\x y\\z.exe\n"
        "    args:\n"
        f"      - --first={'x' * 40}\n"
        f"      - --second={'y' * 40}\n"
    )
    assert as_yaml({}) == "servers: {}\n"


def test_what_is_written_reads_back_as_it_was() -> None:
    dice = random.Random(5)
    pieces = [
        "a",
        "no",
        "1",
        "-",
        ":",
        ": ",
        " #",
        "'",
        '"',
        "\n",
        "\t",
        "{",
        "]",
        ",",
        "é",
        "🦆",
        "\u2028",
        "\\",
        "%",
        "&",
    ]

    def text() -> str:
        return "".join(dice.choice(pieces) for _ in range(dice.randrange(9)))

    shared = ["same", "list"]
    for _ in range(100):
        entry = {"command": text(), "args": [text(), text()], "env": {text(): text()}, "include": shared}
        entries: dict[str, Any] = {
            text(): entry,
            "z": {"exclude": shared, "timeouts": {"call": 1.5}},
            "a": {},
        }
        read = yaml.safe_load(as_yaml(entries))
        assert read == {"servers": entries}
        assert list(read["servers"]) == list(entries)
        assert yaml.safe_load(with_servers("servers:\n", YAML, entries)) == {"servers": entries}


WRITTEN = """\
# mine
servers:
    a:   # first
        command: x
        # args: [for, a]
    # b:
    #     command: y

naming: auto  # last
"""


def test_servers_are_added_behind_the_last_one_and_nothing_else_changes() -> None:
    after = with_servers(WRITTEN, YAML, {**NEW, "more": {"url": "https://x.test"}})

    assert after == (
        "# mine\n"
        "servers:\n"
        "    a:   # first\n"
        "        command: x\n"
        "        # args: [for, a]\n"
        "    new:\n"
        "      command: npx\n"
        "      args: [-y, pkg]\n"
        "    more:\n"
        "      url: https://x.test\n"
        "    # b:\n"
        "    #     command: y\n"
        "\n"
        "naming: auto  # last\n"
    )
    assert (list(servers_in(WRITTEN, YAML)), list(servers_in(after, YAML))) == (["a"], ["a", "new", "more"])


ADDED = "  new:\n    command: npx\n    args: [-y, pkg]\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("servers:", f"servers:\n{ADDED}"),
        ("servers: {}  # none yet\nnaming: auto\n", f"servers:  # none yet\n{ADDED}naming: auto\n"),
        ("servers: null\n", f"servers:\n{ADDED}"),
        ("servers:\n  # a: later\n\nnaming: auto\n", f"servers:\n{ADDED}  # a: later\n\nnaming: auto\n"),
        ("servers:\n  a: {command: x}", f"servers:\n  a: {{command: x}}\n{ADDED}"),
        ("servers:\n  a: https://x.test  # c\n\n", f"servers:\n  a: https://x.test  # c\n{ADDED}\n"),
        (
            "servers:\n  a:\n    command: x\n    args:\n    - b\n    - c\nnaming: auto\n",
            f"servers:\n  a:\n    command: x\n    args:\n    - b\n    - c\n{ADDED}naming: auto\n",
        ),
        (
            "servers:\n  a:\n    command: x\n    args: [b,\n      c]\n...\n",
            f"servers:\n  a:\n    command: x\n    args: [b,\n      c]\n{ADDED}...\n",
        ),
        (
            "servers:\n  a:\n    command: x\n    cwd: >-\n      /one\n      two\n\nnaming: auto\n",
            f"servers:\n  a:\n    command: x\n    cwd: >-\n      /one\n      two\n\n{ADDED}naming: auto\n",
        ),
        (
            "x-base: &base {command: x}\nservers:\n  a:\n    <<: *base\n    args: [b]\n",
            f"x-base: &base {{command: x}}\nservers:\n  a:\n    <<: *base\n    args: [b]\n{ADDED}",
        ),
        (
            "\ufeffservers:\r\n  a: {command: x}\r\n",
            "\ufeffservers:\r\n  a: {command: x}\r\n" + ADDED.replace("\n", "\r\n"),
        ),
    ],
)
def test_every_block_layout_takes_new_servers(before: str, after: str) -> None:
    assert with_servers(before, YAML, NEW) == after


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("servers:\n  - {alias: a, command: x}\n", "its servers are a list"),
        ("x-a: &a\n  b: {command: x}\nservers: *a\n", "its layout cannot be kept"),
        ("x-a: &a {command: x}\nservers:\n  b: *a\n", "its layout cannot be kept"),
        (
            "servers: {a: {command: x}}\nmcpServers: {}\n",
            "it has two lists of servers, servers and mcpServers",
        ),
    ],
)
def test_a_layout_that_does_not_permit_it_is_left_to_the_person(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        with_servers(text, YAML, NEW)

    assert caught.value.problem == f"cannot be edited: {problem}; edit it by hand"


def test_an_alias_that_is_there_is_not_written_twice() -> None:
    with pytest.raises(ConfigError) as caught:
        with_servers(WRITTEN, YAML, {"a": {"command": "z"}})

    assert (caught.value.server, caught.value.problem) == ("a", "is already in the file; rename one")


def test_the_template_loads_with_one_server_to_try(tmp_path: Path) -> None:
    assert loaded(tmp_path, TEMPLATE).servers == {"demo_notes": DEMO}
    assert len(TEMPLATE.splitlines()) <= 30
    assert list(loaded(tmp_path, with_servers(TEMPLATE, YAML, NEW)).servers) == ["demo_notes", "new"]


def commented_examples() -> list[tuple[int, int]]:
    """First and last line of each example in the template that is commented out."""
    is_example = [re.match(r" *# +[\w]+:", line) is not None for line in TEMPLATE.splitlines()]
    runs = [list(run) for _, run in groupby(enumerate(is_example), key=lambda line: line[1])]
    return [(run[0][0], run[-1][0]) for run in runs if run[0][1]]


def uncommented(*examples: tuple[int, int]) -> str:
    lines = TEMPLATE.splitlines()
    for first, last in examples:
        lines[first : last + 1] = [line.replace("# ", "", 1) for line in lines[first : last + 1]]
    return "\n".join(lines) + "\n"


def test_every_example_of_the_template_works_when_it_is_uncommented(tmp_path: Path) -> None:
    examples = commented_examples()
    one_by_one = [loaded(tmp_path, uncommented(example)) for example in examples]
    everything = loaded(tmp_path, uncommented(*examples))

    assert [list(config.servers) for config in one_by_one] == [
        ["demo_notes", "files"],
        ["demo_notes", "search"],
        ["demo_notes"],
        ["demo_notes"],
        ["demo_notes"],
    ]
    assert (list(everything.servers), everything.naming) == (
        ["demo_notes", "files", "search"],
        "{server}_{tool}",
    )
    assert [rule.do for rule in everything.policy] == ["deny", "ask"]
    assert everything.servers["files"].include == ("read_*", "list_*")
    assert everything.servers["search"].headers == {"Authorization": "Bearer ${SEARCH_TOKEN}"}
