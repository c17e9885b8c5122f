"""`toolbus read` and `prompt`: what servers offer besides tools."""

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.cli.running import Done, environment, scripted, together, toolbus, write_config
from tests.patience import PATIENCE
from tests.servers.everyday import PNG

ASKING = str(Path(__file__).parents[1] / "servers" / "asking.py")
RAW = "\u00fc\x1b[2J\r\nno line feed at the end"
PICTURE = {"type": "image", "data": base64.b64encode(PNG).decode(), "mimeType": "image/png"}
DOCS: dict[str, Any] = {
    "resources": [
        {
            "uri": "docs://guide",
            "name": "guide",
            "description": "How to.\nMore.",
            "mimeType": "text/plain",
            "size": 1500,
        },
        {"uri": "docs://logo.png", "name": "logo", "title": "The logo", "mimeType": "image/png"},
        {"uri": "docs://parts", "name": "parts"},
        {"uri": "shared://here", "name": "here"},
    ],
    "templates": [{"uriTemplate": "docs://{lang}/page{?draft}", "name": "page", "description": "A page."}],
    "contents": {
        "docs://guide": [{"uri": "docs://guide", "text": RAW, "mimeType": "text/plain"}],
        "docs://logo.png": [
            {"uri": "docs://logo.png", "blob": base64.b64encode(PNG).decode(), "mimeType": "image/png"}
        ],
        "docs://parts": [
            {"uri": "docs://parts/1", "text": "one"},
            {"uri": "docs://parts/2", "text": "two\n", "mimeType": "text/markdown"},
        ],
        "docs://mixed": [
            {"uri": "docs://mixed/a", "text": "a"},
            {"uri": "docs://mixed/b", "blob": base64.b64encode(b"\x00").decode()},
        ],
        "docs://none": [],
        "docs://de/page": [{"uri": "docs://de/page", "text": "Seite"}],
        "docs://a%2Fb/page?draft=yes": [{"uri": "docs://a/b", "text": "a draft"}],
    },
    "prompts": [
        {
            "name": "review",
            "description": "Review code.",
            "arguments": [
                {"name": "language", "description": "Which\nlanguage.", "required": True},
                {"name": "code"},
            ],
        },
        {"name": "../draw", "title": "A drawing"},
        {"name": "both"},
    ],
    "messages": {
        "../draw": [
            {"role": "user", "content": {"type": "text", "text": "Draw \x1b[2J this:"}},
            {"role": "user", "content": PICTURE},
            {"role": "assistant", "content": {"type": "text", "text": "Gladly."}},
        ]
    },
}
OTHER: dict[str, Any] = {
    "resources": [{"uri": "shared://here", "name": "here"}],
    "contents": {"shared://here": [{"uri": "shared://here", "text": "from other"}]},
    "prompts": [{"name": "both"}],
}
REJECTED = (
    "server 'docs': resource 'docs://guid' was rejected: no docs://guid here; "
    "did you mean 'docs://guide'? (code -32601)"
)
COMMANDS = {
    "resources": ["read", "docs"],
    "resources of all": ["read"],
    "resources json": ["read", "docs", "--json"],
    "prompts": ["prompt", "docs"],
    "prompts json": ["prompt", "docs", "--json"],
    "read json": ["read", "docs", "docs://guide", "--json"],
    "unnamed": ["read", "docs://guide"],
    "parts": ["read", "docs", "docs://parts"],
    "none": ["read", "docs", "docs://none"],
    "template": ["read", "docs", "docs://{lang}/page{?draft}", "lang=de"],
    "unnamed template": ["read", "docs://{lang}/page{?draft}", "lang=a/b", "draft=yes"],
    "from a template": ["read", "docs://de/page"],
    "blob json": ["read", "docs", "docs://logo.png", "--json"],
    "mixed": ["read", "docs", "docs://mixed"],
    "missing value": ["read", "docs", "docs://{lang}/page{?draft}"],
    "odd value": ["read", "docs", "docs://guide", "lang=de"],
    "no pair": ["read", "docs", "docs://guide", "lang"],
    "unknown": ["read", "docs", "docs://guid"],
    "unknown anywhere": ["read", "docs://guid", "--json"],
    "shared": ["read", "shared://here"],
    "of other": ["read", "other", "shared://here"],
    "no server": ["read", "dosc", "docs://guide"],
    "no uri": ["read", "docs", "--out", "x"],
    "no server alone": ["read", "dosc"],
    "read down": ["read", "broken", "docs://guide"],
    "prompt": ["prompt", "docs/review", "language=go", "code=@code.go"],
    "prompt json": ["prompt", "../draw", "--json"],
    "prompt alone": ["prompt", "review", "language=@@home"],
    "missing": ["prompt", "docs/review", "code=x"],
    "misspelt": ["prompt", "docs/review", "langage=go"],
    "twice": ["prompt", "docs/review", "language=a", "language=b"],
    "unknown prompt": ["prompt", "docs/revew"],
    "unknown of none": ["prompt", "dcos/review"],
    "both": ["prompt", "both"],
    "prompt down": ["prompt", "broken/review", "--json"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home") / "work"
    folder.mkdir()
    (folder / "code.go").write_text("package main\n")
    docs = scripted(folder, "docs", **DOCS)
    other = scripted(folder, "other", marker=str(folder / "other_started"), **OTHER)
    write_config(folder, {"docs": docs, "other": other, "broken": {"command": "no-such-program"}})
    return folder


@pytest.fixture(scope="module")
def runs(folder: Path) -> dict[str, Done]:
    return together(COMMANDS, folder)


def test_resources_and_templates_are_listed_by_server(runs: dict[str, Done]) -> None:
    run = runs["resources"]
    assert run.stdout.splitlines() == [
        "docs  ready  2025-06-18 (legacy)  4 resources, 1 template",
        "  docs://guide                text/plain, 1.5 kB      guide: How to. More.",
        "  docs://logo.png             image/png               The logo",
        "  docs://parts                                        parts",
        "  shared://here                                       here",
        "  docs://{lang}/page{?draft}  template: lang= draft=  page: A page.",
    ]
    assert (run.returncode, run.stderr) == (0, "")
    of_all = runs["resources of all"]
    assert of_all.returncode == 0
    heads = [line.partition("  ")[0] for line in of_all.stdout.splitlines() if not line.startswith(" ")]
    assert heads == ["docs", "other", "broken"]
    assert "command 'no-such-program' not found" in of_all.stdout


def test_resources_for_programs(runs: dict[str, Done]) -> None:
    told = json.loads(runs["resources json"].stdout)
    assert list(told) == ["servers", "resources", "templates"]
    assert told["servers"]["docs"]["state"] == "ready"
    assert told["resources"][0] == {
        "server": "docs",
        "uri": "docs://guide",
        "name": "guide",
        "title": None,
        "description": "How to.\nMore.",
        "mime_type": "text/plain",
        "size": 1500,
    }
    (template,) = told["templates"]
    assert (template["uri_template"], template["variables"]) == (
        "docs://{lang}/page{?draft}",
        ["lang", "draft"],
    )


def test_prompts_are_listed_with_their_arguments(runs: dict[str, Done]) -> None:
    assert runs["prompts"].stdout.splitlines() == [
        "docs  ready  2025-06-18 (legacy)  3 prompts",
        "  docs/review  Review code.",
        "    language  required  Which language.",
        "    code      optional",
        "  docs/../draw  A drawing",
        "  docs/both",
    ]
    told = json.loads(runs["prompts json"].stdout)
    assert [prompt["name"] for prompt in told["prompts"]] == ["review", "../draw", "both"]
    assert told["prompts"][0]["arguments"][1] == {"name": "code", "description": "", "required": False}


def piped(folder: Path, *words: str) -> bytes:
    """The output in a pipe, byte by byte."""
    env = environment(folder.parent)
    run = subprocess.run(
        [warm.toolbus(), *words], cwd=folder, env=env, capture_output=True, timeout=PATIENCE, check=True
    )
    assert run.stderr == b""
    return run.stdout


def test_text_goes_to_a_pipe_or_a_file_as_it_is(folder: Path, runs: dict[str, Done]) -> None:
    assert piped(folder, "read", "docs", "docs://guide") == RAW.encode()
    assert runs["unnamed"].stdout == RAW.replace("\r\n", "\n")
    run = toolbus("read", "docs", "docs://guide", "--out", "guide.txt", folder=folder)
    assert run.stdout == "resource docs://guide, text/plain, 31 B, saved as guide.txt\n"
    assert (folder / "guide.txt").read_bytes() == RAW.encode()


def test_what_was_read_for_programs(runs: dict[str, Done]) -> None:
    content = {"type": "embedded", "uri": "docs://guide", "text": RAW, "mime_type": "text/plain"}
    told = json.loads(runs["read json"].stdout)
    assert told == {"server": "docs", "uri": "docs://guide", "content": [content]}
    (blob,) = json.loads(runs["blob json"].stdout)["content"]
    assert blob == {
        "type": "embedded",
        "uri": "docs://logo.png",
        "size": len(PNG),
        "data": base64.b64encode(PNG).decode(),
        "mime_type": "image/png",
    }


def test_several_parts_follow_one_another_and_none_are_said_to_be_none(runs: dict[str, Done]) -> None:
    assert runs["parts"].stdout == "one\ntwo\n"
    none = runs["none"]
    assert (none.returncode, none.stdout, none.stderr) == (0, "", "(the resource is empty)\n")


def test_a_template_takes_values(runs: dict[str, Done]) -> None:
    assert runs["template"].stdout == "Seite"
    assert runs["unnamed template"].stdout == "a draft"
    assert runs["from a template"].stdout == "Seite"


def test_blobs_go_into_files_that_are_not_there_yet(folder: Path) -> None:
    words = ["read", "docs", "docs://logo.png", "--out"]
    (folder / "files").mkdir()
    for out, saved in (
        ("new/pic.png", "new/pic.png"),
        ("files", "files/logo.png"),
        ("files", "files/logo-2.png"),
    ):
        run = toolbus(*words, out, folder=folder)
        assert run.stdout == f"resource docs://logo.png, image/png, 70 B, saved as {saved}\n"
        assert (folder / saved).read_bytes() == PNG
    again = toolbus(*words, "new/pic.png", folder=folder)
    assert (again.returncode, again.stdout) == (2, "")
    assert again.stderr == "toolbus: --out 'new/pic.png' already exists; pass another file, or a folder\n"
    several = toolbus("read", "docs", "docs://mixed", "--out", "mixed", "--json", folder=folder)
    assert [part["path"] for part in json.loads(several.stdout)["content"]] == ["mixed/a.bin", "mixed/b.bin"]


def test_a_blob_alone_goes_to_a_pipe_and_none_goes_between_texts(folder: Path, runs: dict[str, Done]) -> None:
    assert piped(folder, "read", "docs", "docs://logo.png") == PNG
    mixed = runs["mixed"]
    assert (mixed.returncode, mixed.stdout) == (2, "")
    assert mixed.stderr == "toolbus: docs://mixed/b is binary (1 B); save it with --out DIR\n"


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        (
            "missing value",
            2,
            "docs://{lang}/page{?draft}: no value for 'lang'; it takes lang=... draft=...",
        ),
        ("odd value", 2, "docs://guide: unknown variable 'lang'; known: none"),
        ("no pair", 2, "'lang' is not KEY=VALUE; write for example text='buy tea'"),
        ("shared", 2, "docs and other have 'shared://here'; name the server: toolbus read docs ..."),
        ("no server", 2, "server 'dosc': unknown server; did you mean 'docs'?"),
        ("no server alone", 2, "server 'dosc': unknown server; did you mean 'docs'?"),
        ("no uri", 2, "--out needs the URI of the resource to save; 'toolbus read' lists them"),
        (
            "unknown",
            1,
            REJECTED,
        ),
        (
            "unknown anywhere",
            1,
            "no resource 'docs://guid' among 6; not connected: broken; did you mean 'docs://guide'?",
        ),
        ("misspelt", 2, "langage: no such argument; did you mean 'language'?"),
        ("twice", 2, "language is given twice; keep one"),
        (
            "unknown prompt",
            1,
            "no prompt 'docs/revew' among 4; not connected: broken; did you mean 'docs/review'?",
        ),
        (
            "unknown of none",
            1,
            "no prompt 'dcos/review' among 4; not connected: broken; did you mean 'docs/review'?",
        ),
        ("both", 2, "2 prompts are named 'both'; use docs/both or other/both"),
    ],
)
def test_what_cannot_be_is_one_line(runs: dict[str, Done], name: str, code: int, message: str) -> None:
    run = runs[name]
    assert (run.returncode, run.stderr) == (code, f"toolbus: {message}\n")
    told = json.loads(run.stdout)["error"] if "--json" in COMMANDS[name] else {"message": message}
    assert told["message"] == message


def test_a_server_that_is_down_says_why(runs: dict[str, Done]) -> None:
    for name in ("read down", "prompt down"):
        assert runs[name].returncode == 1
        assert runs[name].stderr.startswith(
            "toolbus: server 'broken': spawn failed: command 'no-such-program'"
        )
    assert json.loads(runs["prompt down"].stdout)["error"]["type"] == "ConnectFailed"


def test_a_prompt_is_filled_in(runs: dict[str, Done]) -> None:
    run = runs["prompt"]
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == 'user:\n{"language": "go", "code": "package main\\n"}\n'
    assert runs["prompt alone"].stdout == 'user:\n{"language": "@home"}\n'


def test_what_a_prompt_needs_is_said_before_anything_is_sent(runs: dict[str, Done]) -> None:
    run = runs["missing"]
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.splitlines() == [
        "toolbus: docs/review needs language=...",
        "  language  required: Which language.",
        "  code      optional",
    ]


def test_the_pictures_of_a_prompt_are_saved_and_its_text_is_not_obeyed(folder: Path) -> None:
    run = toolbus("prompt", "docs/../draw", "--out", "pictures", folder=folder)
    assert run.stdout.splitlines() == [
        "user:",
        "Draw \\x1b[2J this:",
        "user:",
        "image image/png, 70 B, saved as pictures/draw.png",
        "assistant:",
        "Gladly.",
    ]
    assert (folder / "pictures" / "draw.png").read_bytes() == PNG


def test_a_prompt_for_programs(runs: dict[str, Done]) -> None:
    told = json.loads(runs["prompt json"].stdout)
    assert (told["server"], told["name"]) == ("docs", "../draw")
    assert [message["role"] for message in told["messages"]] == ["user", "user", "assistant"]
    assert told["messages"][1]["content"] == {
        "type": "image",
        "size": len(PNG),
        "data": PICTURE["data"],
        "mime_type": "image/png",
    }


def test_only_the_server_that_is_named_is_started(folder: Path, runs: dict[str, Done]) -> None:
    marker = folder / "other_started"
    for words in (
        ["read", "docs", "docs://guide"],
        ["prompt", "docs/both"],
        ["read", "docs"],
        ["prompt", "docs"],
    ):
        marker.unlink(missing_ok=True)
        assert toolbus(*words, folder=folder).returncode == 0
        assert not marker.exists()


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_a_server_of_either_era_is_read_and_prompted(tmp_path: Path, era: str) -> None:
    write_config(tmp_path, {"asking": {"command": warm.python(), "args": [ASKING, "stdio"], "era": era}})
    runs = together(
        {
            "code": ["read", "code://{language}/{+path}", "language=go", "path=a/b"],
            "prompt": ["prompt", "review", "language=go", "code=x", "--out", "pictures"],
        },
        tmp_path,
    )
    assert (runs["code"].returncode, runs["code"].stdout) == (0, "go at a/b")
    assert runs["prompt"].stdout.splitlines() == [
        *("user:", "Review this go: x"),
        *("user:", "image image/png, 70 B, saved as pictures/review.png"),
        *("user:", "resource code://guide, text/plain", "Be kind."),
        *("assistant:", "Gladly."),
    ]


def test_with_v_what_a_server_logs_is_shown(tmp_path: Path) -> None:
    own = scripted(
        tmp_path,
        "own",
        tools=[{"name": "x"}],
        resources=[],
        contents={"x://a": [{"uri": "x://a", "text": "a"}]},
        prompts=[{"name": "p"}],
        logs={"info": "looking\x1b[31m", "error": {"code": 5}, "debug": "detail"},
    )
    write_config(tmp_path, {"own": own})
    for words in (["call", "own_x"], ["read", "own", "x://a"], ["prompt", "own/p"]):
        quiet, told = toolbus(*words, folder=tmp_path), toolbus(*words, "-v", folder=tmp_path)
        assert (quiet.returncode, quiet.stderr) == (0, "")
        assert told.stdout == quiet.stdout
        lines = [line.partition(" ")[2] for line in told.stderr.splitlines() if "toolbus.server" in line]
        assert lines == [
            "toolbus.server INFO server 'own': looking\\x1b[31m",
            "toolbus.server ERROR server 'own': {\"code\": 5}",
        ]
