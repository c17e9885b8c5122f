"""One entry in another host's file: its place on each platform, and the unchanged rest."""

from pathlib import Path

import pytest

from tests.inside.config import (
    EDITORS,
    FORMS,
    NotEditable,
    Steps,
    container_in,
    host_document,
    is_toolbus,
    user_file,
    with_entry,
    without_entry,
)

ENTRY = {"command": "toolbus", "args": ["serve", "--stdio"]}


@pytest.mark.parametrize(
    ("editor", "linux", "mac", "windows"),
    [
        (
            "claude",
            ".config/Claude/claude_desktop_config.json",
            "Library/Application Support/Claude/claude_desktop_config.json",
            "AppData/Roaming/Claude/claude_desktop_config.json",
        ),
        ("claude-code", ".claude.json", ".claude.json", ".claude.json"),
        (
            "vscode",
            ".config/Code/User/mcp.json",
            "Library/Application Support/Code/User/mcp.json",
            "AppData/Roaming/Code/User/mcp.json",
        ),
        (
            "goose",
            ".config/goose/config.yaml",
            ".config/goose/config.yaml",
            "AppData/Roaming/Block/goose/config/config.yaml",
        ),
        (
            "zed",
            ".config/zed/settings.json",
            ".config/zed/settings.json",
            "AppData/Roaming/Zed/settings.json",
        ),
    ],
)
def test_a_new_file_is_where_the_platform_has_it(
    editor: str, linux: str, mac: str, windows: str, tmp_path: Path
) -> None:
    found = [
        user_file(editor, home=tmp_path, platform=platform).relative_to(tmp_path)
        for platform in ("linux", "darwin", "win32")
    ]
    assert found == [Path(path) for path in (linux, mac, windows)]


@pytest.mark.parametrize(
    ("editor", "platform", "existing", "chosen"),
    [
        (
            "claude",
            "win32",
            "AppData/Local/Packages/Claude_x1/LocalCache/Roaming/Claude/claude_desktop_config.json",
            "AppData/Local/Packages/Claude_x1/LocalCache/Roaming/Claude/claude_desktop_config.json",
        ),
        ("opencode", "linux", ".config/opencode/opencode.jsonc", ".config/opencode/opencode.jsonc"),
        ("vscode", "linux", ".config/Code/User/settings.json", ".config/Code/User/mcp.json"),
    ],
)
def test_a_file_that_is_there_is_used_unless_it_is_for_something_else(
    editor: str, platform: str, existing: str, chosen: str, tmp_path: Path
) -> None:
    file = tmp_path / existing
    file.parent.mkdir(parents=True)
    file.write_text("{}")

    assert user_file(editor, home=tmp_path, platform=platform) == tmp_path / chosen


def test_each_editor_has_a_form() -> None:
    assert list(FORMS) == list(EDITORS)


@pytest.mark.parametrize(
    ("text", "container"),
    [
        ('{"mcp": {}}', ("mcp",)),
        ('{"mcp": {"servers": {"type": "local", "command": ["x"]}}}', ("mcp",)),
        ('{"mcp": {"servers": {"a": {"type": "local", "command": ["x"]}}}}', ("mcp", "servers")),
        ("{}", ("mcp",)),
    ],
)
def test_both_shapes_of_opencode_are_known(text: str, container: Steps) -> None:
    assert container_in("opencode", host_document(text, Path("opencode.json"))) == container


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '{\n  "s": {\n    "t": {\n      "a": 1\n    }\n  }\n}\n'),
        ("{}", '{"s": {"t": {"a": 1}}}'),
        ('{"s": null}', '{"s": {"t": {"a": 1}}}'),
        (
            '{\r\n\t"x": 1 // one\r\n}\r\n',
            '{\r\n\t"x": 1, // one\r\n\t"s": {\r\n\t\t"t": {\r\n\t\t\t"a": 1\r\n\t\t}\r\n\t}\r\n}\r\n',
        ),
        (
            '{\n  "s": {\n    // first\n    "u": {"a": 2}, // last\n  },\n}',
            '{\n  "s": {\n    // first\n    "u": {"a": 2}, // last\n    "t": {"a": 1},\n  },\n}',
        ),
        ('{"s": {"t": {"a": 2}, "u": {}}}', '{"s": {"u": {}, "t": {"a": 1}}}'),
        (
            '/* all "s" */ {"s": {"u": "// no comment"}}',
            '/* all "s" */ {"s": {"u": "// no comment", "t": {"a": 1}}}',
        ),
    ],
)
def test_json_keeps_its_layout_and_its_comments(before: str, after: str) -> None:
    assert with_entry(before, Path("x.json"), ("s",), "t", {"a": 1}) == after


def test_a_comment_that_would_be_lost_stops_the_edit() -> None:
    text = '{"s": {\n  // mine\n  "t": {"a": 1}\n}}'

    with pytest.raises(NotEditable, match="a comment in the way"):
        without_entry(text, Path("x.json"), ("s",), "t")


def test_a_large_file_of_a_host_is_edited_at_once(tmp_path: Path) -> None:
    many = ",\n".join(
        f'    "/home/ann/{n}": {{"history": ["hellö \\ud83d\\ude00", "{n}"]}}' for n in range(3_000)
    )
    text = f'{{\n  "projects": {{\n{many}\n  }}\n}}\n'

    after = with_entry(text, Path(".claude.json"), ("mcpServers",), "toolbus", ENTRY)

    assert without_entry(after, Path(".claude.json"), ("mcpServers",), "toolbus") == text.replace(
        "\n  }\n}\n", '\n  },\n  "mcpServers": {}\n}\n'
    )


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"command": "/usr/bin/toolbus", "args": ["serve", "--stdio"]}, True),
        ({"command": "C:\\Users\\ann\\toolbus.exe", "args": ["serve"]}, True),
        ({"command": "python", "args": ["-m", "toolbus", "serve"]}, True),
        ({"command": ["toolbus", "serve"]}, True),
        ({"cmd": "toolbus", "args": ["serve"]}, True),
        ({"command": {"path": "toolbus", "args": ["serve"]}}, True),
        ({"command": "toolbus", "args": ["chat"]}, False),
        ({"command": "serve", "args": ["toolbus"]}, False),
        ({"url": "https://toolbus.example/serve"}, False),
        ("toolbus serve", False),
        (None, False),
    ],
)
def test_an_entry_for_toolbus_is_recognized(entry: object, expected: bool) -> None:
    assert is_toolbus(entry) is expected
