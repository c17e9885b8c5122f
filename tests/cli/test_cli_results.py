"""The result of a tool: text as it is, structured content once, blobs as files and never on the screen."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Done, scripted, together, toolbus, write_config
from tests.cli.terminal import terminal
from tests.servers.everyday import PNG, WAV


def coded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def embedded(uri: str, data: bytes, **more: str) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, "blob": coded(data), **more}}


LONG_NAME = "n" * 300
MANY = [
    {"type": "text", "text": "first"},
    {"type": "image", "data": coded(PNG), "mimeType": "image/png"},
    {"type": "audio", "data": coded(WAV), "mimeType": "audio/wav"},
    {"type": "resource_link", "uri": "memo://x", "name": "x", "mimeType": "text/plain", "size": 1500},
    {"type": "resource", "resource": {"uri": "memo://hello", "text": "hello", "mimeType": "text/plain"}},
    embedded("memo://papers/one.pdf", b"\x00\x01", mimeType="application/pdf"),
    {"type": "text", "text": "last"},
]
HOSTILE = [
    ("file:///../../etc/passwd", "passwd.bin"),
    ("file:///..", "s_hostile.bin"),
    ("memo://a/..%2f..%2fx", "2f.._2fx"),
    ("memo://a/.bashrc", "bashrc.bin"),
    ("memo://a/a b\n\x1b[31m;rm.sh", "a_b_31m_rm.sh"),
    ("memo://a/C:\\evil.exe", "C_evil.exe"),
    (f"memo://a/{LONG_NAME}", "n" * 100 + ".bin"),
    ("memo://a/passwd", "passwd-2.bin"),
]
RESULTS: dict[str, Any] = {
    "many": {"content": MANY, "structuredContent": {"n": 7}},
    "hostile": {"content": [embedded(uri, bytes([index])) for index, (uri, _) in enumerate(HOSTILE)]},
    "repeating": {
        "content": [{"type": "text", "text": '{"b":[1,2],"a":"\u00fc"}'}],
        "structuredContent": {"a": "\u00fc", "b": [1, 2]},
    },
    "wrapped": {"content": [{"type": "text", "text": "5"}], "structuredContent": {"result": 5}},
    "encoded": {
        "content": [{"type": "text", "text": '{"a": 1}'}],
        "structuredContent": {"result": '{"a": 1}'},
    },
    "file": {"content": [{"type": "text", "text": "hi"}], "structuredContent": {"content": "hi"}},
    "items": {
        "content": [{"type": "text", "text": '{\n  "a": 1\n}'}, {"type": "text", "text": '{"a": 2}'}],
        "structuredContent": {"result": [{"a": 1}, {"a": 2}]},
    },
    "pictured": {
        "content": [{"type": "text", "text": f"data:image/png;base64,{coded(PNG)}"}],
        "structuredContent": {"preview": coded(PNG)},
    },
    "nothing": {"content": []},
}
COMMANDS = {
    **{name: ["call", f"s_{name}"] for name in RESULTS if name != "hostile"},
    "many json": ["call", "s_many", "--json"],
    "hostile": ["call", "s_hostile", "--out", "hostile/new"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    tools = [{"name": name} for name in RESULTS]
    write_config(folder, {"s": scripted(folder, "s", tools=tools, results=RESULTS)})
    return folder


@pytest.fixture(scope="module")
def runs(folder: Path) -> dict[str, Done]:
    return together(COMMANDS, folder)


def test_blobs_are_described_and_their_bytes_never_shown(runs: dict[str, Done]) -> None:
    run = runs["many"]
    assert run.stdout.splitlines() == [
        "first",
        "image image/png, 70 B (save it with --out DIR)",
        "audio audio/wav, 16 B (save it with --out DIR)",
        "link x: memo://x, text/plain, 1.5 kB",
        "resource memo://hello, text/plain",
        "hello",
        "resource memo://papers/one.pdf, application/pdf, 2 B (save it with --out DIR)",
        "last",
        "{",
        '  "n": 7',
        "}",
    ]
    assert (run.returncode, run.stderr) == (0, "")


def test_items_that_are_also_structured_content_are_shown_once(runs: dict[str, Done]) -> None:
    assert runs["items"].stdout.splitlines() == ["{", '  "a": 1', "}", '{"a": 2}']


def test_a_terminal_shows_no_base64_and_a_pipe_gets_it(folder: Path, runs: dict[str, Done]) -> None:
    with terminal("call", "s_pictured", folder=folder) as screen:
        screen.until("[data: image/png, 70 B]", '"preview": "[base64: image/png, 70 B]"')
        assert screen.ended() == 0
    assert runs["pictured"].stdout.count(coded(PNG)) == 2


def test_json_has_every_block_and_a_blob_in_base64(runs: dict[str, Done]) -> None:
    told = json.loads(runs["many json"].stdout)
    assert (told["text"], told["structured"]) == ("first\nlast", {"n": 7})
    assert told["content"] == [
        {"type": "text", "text": "first"},
        {"type": "image", "size": 70, "data": coded(PNG), "mime_type": "image/png"},
        {"type": "audio", "size": 16, "data": coded(WAV), "mime_type": "audio/wav"},
        {"type": "resource_link", "uri": "memo://x", "name": "x", "mime_type": "text/plain", "size": 1500},
        {"type": "embedded", "uri": "memo://hello", "text": "hello", "mime_type": "text/plain"},
        {
            "type": "embedded",
            "uri": "memo://papers/one.pdf",
            "size": 2,
            "data": coded(b"\x00\x01"),
            "mime_type": "application/pdf",
        },
        {"type": "text", "text": "last"},
    ]


def test_blobs_are_saved_byte_by_byte_and_never_over_a_file(folder: Path) -> None:
    (folder / "out").mkdir()
    (folder / "out" / "s_many.png").write_text("mine")
    first = toolbus("call", "s_many", "--out", "out", folder=folder)
    assert [line for line in first.stdout.splitlines() if "saved" in line] == [
        "image image/png, 70 B, saved as out/s_many-2.png",
        "audio audio/wav, 16 B, saved as out/s_many.wav",
        "resource memo://papers/one.pdf, application/pdf, 2 B, saved as out/one.pdf",
    ]
    second = toolbus("call", "s_many", "--out", "out", "--json", folder=folder)
    content = json.loads(second.stdout)["content"]
    assert content[1] == {"type": "image", "size": 70, "path": "out/s_many-3.png", "mime_type": "image/png"}
    assert {file.name: file.read_bytes() for file in (folder / "out").iterdir()} == {
        "s_many.png": b"mine",
        **dict.fromkeys(["s_many-2.png", "s_many-3.png"], PNG),
        **dict.fromkeys(["s_many.wav", "s_many-2.wav"], WAV),
        **dict.fromkeys(["one.pdf", "one-2.pdf"], b"\x00\x01"),
    }


def test_a_hostile_uri_names_no_file_outside_the_folder(folder: Path, runs: dict[str, Done]) -> None:
    run = runs["hostile"]
    assert (run.returncode, run.stderr) == (0, "")
    found = {str(file.relative_to(folder / "hostile")) for file in (folder / "hostile").rglob("*")}
    assert found == {"new", *(f"new/{name}" for _, name in HOSTILE)}
    for index, (_, name) in enumerate(HOSTILE):
        assert (folder / "hostile" / "new" / name).read_bytes() == bytes([index])
    assert "\x1b" not in run.stdout


def test_structured_content_is_shown_once(runs: dict[str, Done]) -> None:
    pretty = '{\n  "a": "\u00fc",\n  "b": [\n    1,\n    2\n  ]\n}\n'
    assert runs["repeating"].stdout == pretty
    assert runs["wrapped"].stdout == "5\n"
    assert runs["encoded"].stdout == '{"a": 1}\n'
    assert runs["file"].stdout == "hi\n"


def test_a_tool_that_gives_nothing_says_so(runs: dict[str, Done]) -> None:
    run = runs["nothing"]
    assert (run.returncode, run.stdout, run.stderr) == (0, "(the tool returned nothing)\n", "")


def test_a_folder_that_is_a_file_is_wrong_usage(folder: Path) -> None:
    (folder / "file").touch()
    run = toolbus("call", "s_many", "--out", "file", folder=folder)
    assert (run.returncode, run.stdout, run.stderr) == (
        2,
        "",
        "toolbus: --out 'file' is a file; name a folder\n",
    )
