"""`toolbus key`: a key is shown once, and never again."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Done, toolbus

VIEWS: dict[str, Any] = {"auth": {"keys": True}, "views": {"default": {}, "research": {"servers": ["a"]}}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / "work"
    folder.mkdir(parents=True)
    write(folder, serve=VIEWS)
    return folder


def write(folder: Path, **settings: Any) -> None:
    config = {"servers": {"a": {"command": "never-started"}}, **settings}
    (folder / "toolbus.yaml").write_text(json.dumps(config))


def run(folder: Path, *words: str) -> Done:
    return toolbus("key", *words, folder=folder)


def test_the_secret_of_the_authorization_server_is_replaced(folder: Path) -> None:
    none = run(folder, "rotate")
    assert (none.returncode, none.stderr) == (
        2,
        "toolbus: there is no secret to replace; serve.auth.sign_in is not set in toolbus.yaml\n",
    )
    config = json.loads((folder / "toolbus.yaml").read_text())
    config["serve"] = {"public_url": "http://127.0.0.1:7400", "auth": {"sign_in": {}}}
    (folder / "toolbus.yaml").write_text(json.dumps(config))
    assert run(folder, "rotate").stdout.startswith("replaced the secret; what the old one signed is accepted")
    [file] = folder.parent.rglob("*.sign-in")
    first = file.read_bytes()
    until = json.loads(run(folder, "rotate", "--keep", "1h", "--json").stdout)["accepted_until"]
    assert 3500 < until - time.time() < 3700
    assert file.read_bytes()[-32:] == first[:32]
    assert file.stat().st_mode & 0o777 == 0o600
    assert run(folder, "rotate", "--keep", "0").stdout == (
        "replaced the secret; everyone has to sign in again\n"
    )


def test_a_key_is_made_listed_and_revoked(folder: Path) -> None:
    made = run(folder, "add", "ann", "--view", "research", "--user", "ann@example.com", "--expires", "30d")
    key = made.stdout.strip()
    assert (made.returncode, made.stdout.count("\n"), key[:3], len(key)) == (0, 1, "tb_", 46)
    assert "not shown again" in made.stderr
    run(folder, "add", "bot")
    listed = run(folder, "list")
    rows = [line.split() for line in listed.stdout.splitlines()]
    assert [row[:3] for row in rows] == [
        ["name", "view", "user"],
        ["ann", "research", "ann@example.com"],
        ["bot", "default", "-"],
    ]
    [ann, bot] = json.loads(run(folder, "list", "--json").stdout)["keys"]
    assert 29 < (ann["expires"] - time.time()) / 86400 < 31
    assert (ann["views"], ann["user"], ann["last_used"]) == (["research"], "ann@example.com", None)
    assert (bot["views"], bot["expires"]) == (["default"], None)
    assert run(folder, "revoke", "ann").stdout == "revoked ann\n"
    assert [one["name"] for one in json.loads(run(folder, "list", "--json").stdout)["keys"]] == ["bot"]
    # Nothing of it is left but what the terminal showed.
    files = [file.read_text() for file in folder.parent.rglob("*") if file.is_file()]
    assert not any(key in text for text in files)
    assert key not in listed.stdout


def test_with_json_the_key_is_in_the_document(folder: Path) -> None:
    made = json.loads(run(folder, "add", "ann", "--view", "research", "--view", "default", "--json").stdout)
    assert made["key"].startswith("tb_")
    assert (made["name"], made["views"], made["user"], made["expires"]) == (
        "ann",
        ["research", "default"],
        "",
        None,
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["add", "ann", "--view", "reserch"], "--view: the config has no view named 'reserch'; did you mean"),
        (["add", "a b"], "a name has letters, digits and ._@+-"),
        (["add", "ann", "--expires", "soon"], "--expires: not a time; write such as 12h, 30d"),
        (["add", "ann", "--expires", "2020-01-01"], "--expires: is in the past"),
        (["add", "ann", "--user", " "], "--user: expected the name of a user"),
        (["revoke", "ann"], "no key or person is named 'ann'; see 'toolbus key list'"),
    ],
)
def test_wrong_usage_is_explained(folder: Path, words: list[str], message: str) -> None:
    done = run(folder, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"toolbus: {message}")


def test_a_name_is_used_once(folder: Path) -> None:
    run(folder, "add", "ann")
    again = run(folder, "add", "ann")
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr == ("toolbus: there is a key named 'ann'; choose another name, or revoke it first\n")


def test_keys_that_nothing_uses_are_noted(folder: Path) -> None:
    write(folder)
    made = run(folder, "add", "ann")
    assert made.stdout.startswith("tb_")
    assert "keys are not used yet; add 'serve: {auth: {keys: true}}' to toolbus.yaml" in made.stderr
    run(folder, "revoke", "ann")
    assert "there are no keys for toolbus.yaml" in run(folder, "list").stderr


def test_a_file_of_keys_that_others_can_write_is_refused(folder: Path) -> None:
    run(folder, "add", "ann")
    [file] = (folder.parent / ".state" / "toolbus" / "gateway").glob("*.keys.json")
    file.chmod(0o666)
    done = run(folder, "list")
    assert (done.returncode, done.stdout) == (1, "")
    assert "can be written by other users; chmod 600" in done.stderr


SIGN_IN: dict[str, Any] = {
    "public_url": "https://tools.example.com/bus/",
    "auth": {"sign_in": {}},
    "views": {"default": {}, "research": {}},
}


def test_an_invite_is_printed_once_listed_and_revoked(folder: Path) -> None:
    write(folder, serve=SIGN_IN)
    made = run(folder, "invite", "ann", "--view", "research", "--user", "team", "--expires", "7d")
    link = made.stdout.strip()
    assert (made.returncode, made.stdout.count("\n")) == (0, 1)
    assert link.startswith("https://tools.example.com/bus/sign-in/invite?code=")
    assert "works once, and is not shown again; send it to ann alone" in made.stderr
    run(folder, "invite", "bob")
    listed = json.loads(run(folder, "list", "--json").stdout)
    shown = [(one["name"], one["views"], one["user"]) for one in listed["invites"]]
    assert shown == [("ann", ["research"], "team"), ("bob", ["default"], "bob")]
    assert 6 < (listed["invites"][0]["expires"] - time.time()) / 86400 < 8
    assert (listed["keys"], listed["browsers"], listed["clients"]) == ([], [], [])
    table = run(folder, "list").stdout
    assert [line.split()[:3] for line in table.splitlines()] == [
        ["invited", "views", "user"],
        ["ann", "research", "team"],
        ["bob", "default", "bob"],
    ]
    assert run(folder, "revoke", "ann").stdout == "revoked ann: 1 invite\n"
    ended = json.loads(run(folder, "revoke", "bob", "--json").stdout)
    assert ended == {"revoked": "bob", "keys": 0, "invites": 1, "browsers": 0, "clients": 0}
    code = link.partition("code=")[2]
    files = [file.read_text() for file in folder.parent.rglob("*") if file.is_file()]
    assert not any(code in text for text in files)


def test_a_second_invite_ends_the_first(folder: Path) -> None:
    write(folder, serve=SIGN_IN)
    first = json.loads(run(folder, "invite", "ann", "--json").stdout)
    second = json.loads(run(folder, "invite", "ann", "--json").stdout)
    assert first["link"] != second["link"]
    assert len(json.loads(run(folder, "list", "--json").stdout)["invites"]) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["invite", "ann", "--view", "reserch"], "--view: the config has no view named 'reserch'; did you"),
        (["invite", "a b"], "a name has letters, digits and ._@+-"),
        (["invite", "ann", "--expires", "2020-01-01"], "--expires: is in the past"),
        (["revoke", "bob"], "no key or person is named 'bob'; see 'toolbus key list'"),
    ],
)
def test_a_wrong_invite_is_explained(folder: Path, words: list[str], message: str) -> None:
    write(folder, serve=SIGN_IN)
    done = run(folder, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"toolbus: {message}")


def test_nobody_is_invited_to_a_gateway_without_a_sign_in(folder: Path) -> None:
    done = run(folder, "invite", "ann")
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        "people cannot sign in with a link; add 'serve: {public_url: ..., auth: {sign_in: {}}}'"
        in done.stderr
    )
