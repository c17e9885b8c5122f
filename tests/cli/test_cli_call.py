"""`toolbus call`: the arguments fit the tool's schema, and an impossible call is explained."""

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Done, scripted, together, toolbus, write_config

KINDS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "x": {"type": "number"},
        "on": {"type": "boolean"},
        "off": {"type": "boolean"},
        "commas": {"type": "array", "items": {"type": "integer"}},
        "twice": {"type": "array", "items": {"type": "string"}},
        "list": {"type": "array"},
        "nested": {"$ref": "#/$defs/Point"},
        "text": {"type": "string"},
        "literal": {"type": "string"},
        "blob": {"type": "string", "contentEncoding": "base64"},
        "nothing": {"type": ["integer", "null"]},
        "colour": {"enum": ["red", "green"]},
        "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "any": {},
    },
    "$defs": {"Point": {"type": "object", "properties": {"x": {"type": "integer"}}}},
}
SEND: dict[str, Any] = {
    "type": "object",
    "properties": {
        "to": {"type": "string", "description": "Whom it goes to."},
        "copies": {"type": "integer", "description": "How many."},
    },
    "required": ["to", "copies"],
}
CLOSED = {**SEND, "additionalProperties": False}
TYPED = (
    "n=5 x=2.5 on=yes off=off commas=1,2 twice=a twice=b list=[true] nested.x=1 text=@letter.txt "
    "literal=@@home blob=@blob nothing=null colour=red either=12a any=[1]"
)
SENT: dict[str, Any] = {
    "n": 5,
    "x": 2.5,
    "on": True,
    "off": False,
    "commas": [1, 2],
    "twice": ["a", "b"],
    "list": [True],
    "nested": {"x": 1},
    "text": "Dear friend, \u00fc\n",
    "literal": "@home",
    "blob": base64.b64encode(b"\xff\x00").decode(),
    "nothing": None,
    "colour": "red",
    "either": "12a",
    "any": [1],
}
COMMANDS = {
    "every kind": ["call", "post_kinds", *TYPED.split()],
    "object": ["call", "post_kinds", "n=2", "--args", '{"n": 1, "unknown": {"a": null}}', "--json"],
    "file": ["call", "post_kinds", "--args-file", "args.json", "n=2"],
    "missing": ["call", "post_send", "copies=1"],
    "misspelt": ["call", "post_send", "too=me", "--json"],
    "misspelt object": ["call", "post_closed", "--args", '{"copis": 1}', "to=me"],
    "strange object": ["call", "post_closed", "--args", '{"weight": 1}', "to=me"],
    "mistyped": ["call", "post_send", "to=me", "copies=two"],
    "unreadable": ["call", "post_send", "to=@none.txt", "copies=1"],
    "malformed": ["call", "post_send", "to"],
    "unknown": ["call", "post_sent"],
    "unknown server": ["call", "pots/send", "--json"],
    "origin": ["call", "post/send", "to=me", "copies=1"],
    "failing": ["call", "post_fail"],
    "too long": ["--json", "call", "post_hang", "--timeout", "0.2"],
}
FAILURE = {"content": [{"type": "text", "text": "the box is full"}], "isError": True}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("call")
    (folder / "letter.txt").write_text(SENT["text"])
    (folder / "blob").write_bytes(b"\xff\x00")
    (folder / "args.json").write_text('{"text": "from a file"}')
    tools = [{"name": "kinds", "inputSchema": KINDS}, {"name": "send", "inputSchema": SEND}]
    tools += [{"name": "closed", "inputSchema": CLOSED}]
    tools += [{"name": "fail"}, {"name": "hang"}]
    post = scripted(folder, "post", tools=tools, results={"fail": FAILURE}, hangs=["hang"])
    other = scripted(folder, "other", tools=[{"name": "send"}], marker=str(folder / "other_started"))
    write_config(folder, {"post": post, "other": other})
    return folder


@pytest.fixture(scope="module")
def runs(folder: Path) -> dict[str, Done]:
    return together(COMMANDS, folder)


def test_every_kind_of_value_arrives_as_the_schema_asks(runs: dict[str, Done]) -> None:
    run = runs["every kind"]
    assert json.loads(run.stdout) == SENT
    assert (run.returncode, run.stderr) == (0, "")


def test_single_values_lie_on_top_of_an_object_and_json_tells_everything(runs: dict[str, Done]) -> None:
    told = json.loads(runs["object"].stdout)
    assert told.pop("elapsed_ms") > 0
    text = '{"n": 2, "unknown": {"a": null}}'
    assert told == {
        "name": "post_kinds",
        "server": "post",
        "tool": "kinds",
        "is_error": False,
        "text": text,
        "content": [{"type": "text", "text": text}],
        "structured": None,
    }
    assert (runs["object"].returncode, runs["object"].stderr) == (0, "")


def test_the_object_may_come_from_a_file_or_from_stdin(runs: dict[str, Done], folder: Path) -> None:
    assert json.loads(runs["file"].stdout) == {"text": "from a file", "n": 2}
    piped = toolbus("call", "post_kinds", "-", "n=3", folder=folder, input='{"text": "from stdin"}')
    assert json.loads(piped.stdout) == {"text": "from stdin", "n": 3}


WRONG_USAGE = {
    "missing": ["post_send needs to=...", "  to  string: Whom it goes to."],
    "misspelt": ["too: no such argument; did you mean 'to'?"],
    "misspelt object": ["copis: no such argument; did you mean 'copies'?"],
    "strange object": ["weight: no such argument; it takes to, copies"],
    "mistyped": ["copies: expected integer, not 'two'"],
    "unreadable": ["to: cannot read 'none.txt': No such file or directory; check the path"],
    "malformed": ["'to' is not KEY=VALUE; write for example text='buy tea'"],
}


@pytest.mark.parametrize(("name", "lines"), WRONG_USAGE.items(), ids=list(WRONG_USAGE))
def test_arguments_that_cannot_be_meant_are_wrong_usage(
    runs: dict[str, Done], name: str, lines: list[str]
) -> None:
    run = runs[name]
    assert run.stderr == "toolbus: " + "\n".join(lines) + "\n"
    assert run.returncode == 2
    document = {"error": {"type": "Usage", "message": lines[0]}}
    assert run.stdout == (json.dumps(document) + "\n" if "--json" in COMMANDS[name] else "")


def test_an_unknown_tool_names_the_one_that_was_meant(runs: dict[str, Done]) -> None:
    run = runs["unknown"]
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.startswith("toolbus: no tool named 'post_sent' among 6; did you mean 'post_send'")
    assert run.stderr.count("\n") == 1
    run = runs["unknown server"]
    message = json.loads(run.stdout)["error"]["message"]
    assert json.loads(run.stdout) == {"error": {"type": "ToolNotFound", "message": message}}
    assert (run.returncode, run.stderr) == (1, f"toolbus: {message}\n")


def test_a_tool_is_known_by_its_origin_too(runs: dict[str, Done]) -> None:
    assert json.loads(runs["origin"].stdout) == {"to": "me", "copies": 1}


def test_only_the_server_that_may_have_the_tool_is_started(folder: Path) -> None:
    marker = folder / "other_started"
    marker.unlink(missing_ok=True)  # an unknown tool may have had all of them up
    run = toolbus("call", "post_kinds", folder=folder)
    assert (run.returncode, run.stdout, run.stderr) == (0, "{}\n", "")
    assert not marker.exists()


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    """A folder of two servers that were listed once; a server that is started leaves a file `started`."""
    folder = tmp_path / "work"
    folder.mkdir()
    marker = str(folder / "started")
    post = scripted(folder, "post", tools=[{"name": "send"}], marker=marker)
    other = scripted(folder, "other", tools=[{"name": "sing"}], marker=marker)
    write_config(folder, {"post": post, "other": other})
    assert toolbus("tools", folder=folder).returncode == 0
    (folder / "started").unlink()
    return folder


def test_a_mistyped_tool_is_refused_from_the_last_listing_and_no_server_is_started(listed: Path) -> None:
    anew = "(run 'toolbus tools' to refresh the list)"
    slips = {
        "post_sned": "post_send",
        "pots_send": "post_send",
        "other/sin": "other/sing",
        "sing": "other_sing",
    }
    for slip, meant in slips.items():
        run = toolbus("call", slip, folder=listed)
        assert run.stderr == f"toolbus: no tool named {slip!r} among 2; did you mean {meant!r}? {anew}\n"
        assert run.returncode == 1
    assert not (listed / "started").exists()
    assert toolbus("call", "nothing_like_it", folder=listed).returncode == 1
    assert (listed / "started").read_text() == "started\n" * 2


def test_a_new_tool_is_found_once_the_program_changed_or_the_listing_is_an_hour_old(listed: Path) -> None:
    script = listed / "post.script"
    script.write_text(json.dumps({"tools": [{"name": "send"}, {"name": "sent"}]}))
    assert toolbus("call", "post_sent", folder=listed).returncode == 0
    written = script.stat().st_mtime_ns
    script.write_text(json.dumps({"tools": [{"name": "send"}, {"name": "sends"}]}))
    os.utime(script, ns=(written, written))  # as if the change were in another file
    assert toolbus("call", "post_sends", folder=listed).returncode == 1
    (file,) = (listed.parent / ".state" / "toolbus" / "listings").iterdir()
    listing = json.loads(file.read_text())
    listing["post"]["at"] -= 3600
    file.write_text(json.dumps(listing))
    assert toolbus("call", "post_sends", folder=listed).returncode == 0


def test_with_names_that_any_server_may_have_only_the_one_that_listed_it_is_started(listed: Path) -> None:
    entries = json.loads((listed / "toolbus.yaml").read_text())["servers"]
    write_config(listed, entries, naming="{tool}")
    assert toolbus("call", "sing", folder=listed).returncode == 0
    assert (listed / "started").read_text() == "started\n" * 2
    assert toolbus("call", "sing", folder=listed).returncode == 0
    assert (listed / "started").read_text() == "started\n" * 3


def test_a_tool_that_says_error_is_a_failure_and_its_text_a_result(runs: dict[str, Done]) -> None:
    run = runs["failing"]
    assert (run.returncode, run.stdout, run.stderr) == (1, "the box is full\n", "")


def test_a_tool_that_takes_too_long_is_a_failure_in_one_line(runs: dict[str, Done]) -> None:
    run = runs["too long"]
    message = (
        "server 'post': tool 'hang' timed out after 0.2 s; "
        "raise the limit with --timeout or timeouts.call in the config"
    )
    assert json.loads(run.stdout) == {"error": {"type": "CallTimeout", "message": message}}
    assert (run.returncode, run.stderr) == (1, f"toolbus: {message}\n")


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "soon"])
def test_a_timeout_must_be_a_number_of_seconds(folder: Path, seconds: str) -> None:
    run = toolbus("call", "post_kinds", "--timeout", seconds, folder=folder)
    assert (run.returncode, run.stdout, run.stderr.count("\n")) == (2, "", 1)
    assert "--timeout" in run.stderr
