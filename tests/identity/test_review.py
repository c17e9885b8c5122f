"""The output of `toolbus trust` and the lockfile about both, and refusals of the config's check."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import toolbus, write_config
from tests.identity.passing import exchange, trusted
from toolbus.config import bus_config
from toolbus.errors import ConfigError

URL = "https://files.example.com/mcp"
ISSUER = "https://id.example.com"
AUTH = {"type": "token_exchange", "issuer": ISSUER, "client_id": "gate", "audience": "files"}


def test_trust_shows_both(tmp_path: Path) -> None:
    auth = {**AUTH, "client_secret": "${EXCHANGE_SECRET}"}
    entry = {"url": URL, "auth": auth, "forward_headers": ["X-Team"]}
    (tmp_path / "toolbus.yaml").write_text(json.dumps({"servers": {"files": entry}}))
    shown = " ".join(toolbus("trust", folder=tmp_path).stdout.split())
    assert "forwards x-team, as clients of the gateway send them" in shown
    assert "type: token_exchange" in shown
    assert "issuer: https://id.example.com" in shown
    assert "audience: files" in shown
    assert "${EXCHANGE_SECRET} from the environment" in shown


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"auth": {**AUTH, "issuer": None}}, "is missing; set it to the authorization server"),
        ({"auth": {**AUTH, "issuer": "http://id.example.com"}}, "must be an https:// URL"),
        ({"auth": {"type": "token_exchange", "issuer": URL}}, "needs issuer and client_id"),
        ({"auth": {**AUTH, "client_secret": "a", "key": "b"}}, "mutually exclusive"),
        ({"auth": AUTH, "required": True}, "without a client there is no token to exchange"),
        ({"auth": AUTH, "headers": {"Authorization": "x"}}, "mutually exclusive"),
    ],
)
def test_an_exchange_that_cannot_be_used(entry: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        bus_config({"servers": {"files": {"url": URL, **entry}}})


def test_an_issuer_on_this_machine_needs_no_encryption() -> None:
    auth = {**AUTH, "issuer": "http://127.0.0.1:8080"}
    assert bus_config({"servers": {"files": {"url": URL, "auth": auth}}}).servers["files"].auth is not None


def test_check_and_lock_say_that_a_server_is_for_clients(tmp_path: Path) -> None:
    with trusted(tmp_path) as (issuer, server):
        folder = tmp_path / "home" / "work"
        folder.mkdir(parents=True)
        write_config(folder, {"me": {"url": server.url, "auth": exchange(issuer)}})
        checked = toolbus("check", folder=folder)
        locked = toolbus("lock", "--yes", folder=folder)
        serving = toolbus("serve", "--check", "--online", "--json", "--http", ":0", folder=folder)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert "authorization server  found" in checked.stdout
    assert "note" in checked.stdout
    assert "used only for clients of the gateway" in checked.stdout
    assert "done" not in checked.stdout
    assert locked.returncode == 0
    assert "me cannot be locked: used only for clients" in locked.stdout + locked.stderr
    assert "set lock: off in its entry" in locked.stdout + locked.stderr
    found = [one for one in json.loads(serving.stdout)["findings"] if one["about"] == "servers.me"]
    assert [(one["severity"], "token" in one["problem"]) for one in found] == [("warning", True)], found


def test_check_finds_an_issuer_that_is_down(tmp_path: Path) -> None:
    with trusted(tmp_path) as (issuer, server):
        folder = tmp_path / "home" / "work"
        folder.mkdir(parents=True)
        auth = {**exchange(issuer), "issuer": "http://127.0.0.1:9"}
        write_config(folder, {"me": {"url": server.url, "auth": auth}})
        checked = toolbus("check", folder=folder)
    assert checked.returncode == 1
    assert "authorization server: " in checked.stdout
