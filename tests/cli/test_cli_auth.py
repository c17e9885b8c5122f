"""Every `auth` is shown as written, without its secrets, by the commands that show a config."""

import json
from pathlib import Path
from typing import Any

import yaml

from tests.cli.running import toolbus, write_config

ISSUER = "https://${TENANT}.test"
SERVERS: dict[str, Any] = {
    "person": {"url": "https://a.test/mcp", "auth": "oauth"},
    "known": {
        "url": "https://b.test/mcp",
        "auth": {
            "type": "oauth",
            "client_id": "c",
            "client_secret": "s3cr3t-one",
            "scopes": ["read", "write"],
            "resource": False,
        },
    },
    "bot": {
        "url": "https://c.test/mcp",
        "auth": {
            "type": "client_credentials",
            "issuer": ISSUER,
            "client_id": "${ID}",
            "key": "${KEY:-s3cr3t-two}",
        },
    },
    "corp": {
        "url": "https://d.test/mcp",
        "auth": {
            "type": "identity_assertion",
            "issuer": "https://auth.test",
            "client_id": "c",
            "assertion": "${cmd:idp --for {issuer}}",
        },
    },
    "pod": {
        "url": "https://e.test/mcp/${user:-all}",
        "auth": {"type": "workload", "issuer": "https://auth.test", "token": "s3cr3t-three"},
    },
}
AS_WRITTEN = {
    "person": {"type": "oauth"},
    "known": {**SERVERS["known"]["auth"], "client_secret": "***"},
    "bot": {**SERVERS["bot"]["auth"], "key": "${KEY:-***}"},
    "corp": SERVERS["corp"]["auth"],
    "pod": {**SERVERS["pod"]["auth"], "token": "***"},
}
EXPANDED = {
    **AS_WRITTEN,
    "bot": {"type": "client_credentials", "issuer": "https://acme.test", "client_id": "id-77", "key": "***"},
    "corp": {**AS_WRITTEN["corp"], "assertion": "***"},
}


def test_a_config_shows_every_auth_without_its_secrets(tmp_path: Path) -> None:
    write_config(tmp_path, SERVERS, tokens="file:kept")
    env = {"TENANT": "acme", "ID": "id-77"}
    written = toolbus("config", "--json", folder=tmp_path)
    expanded = toolbus("config", "--redacted", folder=tmp_path, env=env)

    assert (written.returncode, expanded.returncode) == (0, 0)
    shown, filled = json.loads(written.stdout), yaml.safe_load(expanded.stdout)
    assert {alias: server["auth"] for alias, server in shown["servers"].items()} == AS_WRITTEN
    assert {alias: server["auth"] for alias, server in filled["servers"].items()} == EXPANDED
    assert shown["tokens"] == f"file:{tmp_path / 'kept'}"
    assert "s3cr3t" not in written.stdout + expanded.stdout


def test_the_review_shows_who_gets_credentials_and_where_tokens_would_be_kept(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "toolbus.yaml").write_text(json.dumps({"servers": SERVERS, "tokens": "file:kept"}))
    (folder / ".env").write_text("TENANT=evil\nID=id-77\n")

    assert toolbus("trust", folder=folder).stdout.splitlines() == [
        "person",
        "  url     https://a.test/mcp",
        "  auth    type: oauth",
        "known",
        "  url     https://b.test/mcp",
        "  auth    type: oauth",
        "  auth    scopes: read write",
        "  auth    resource: false",
        "  auth    client_id: c",
        "  auth    client_secret: ***",
        "bot",
        "  url     https://c.test/mcp",
        "  auth    type: client_credentials",
        "  auth    issuer: https://${TENANT}.test",
        "  auth    client_id: ${ID}",
        "  auth    key: ${KEY:-***}",
        "  secret  ${TENANT}  from the environment, else from .env: evil",
        "  secret  ${ID}  from the environment, else from .env",
        "  secret  ${KEY}  from the environment",
        "corp",
        "  url     https://d.test/mcp",
        "  auth    type: identity_assertion",
        "  auth    issuer: https://auth.test",
        "  auth    client_id: c",
        "  auth    assertion: ${cmd:idp --for {issuer}}",
        "  secret  ${cmd:idp --for {issuer}}  runs this command",
        "pod",
        "  url     https://e.test/mcp/${user:-all}",
        "  auth    type: workload",
        "  auth    issuer: https://auth.test",
        "  auth    token: ***",
        "  secret  ${user}  the name of the user",
        f"tokens of people who sign in are kept in: file:{folder / 'kept'}",
        "*** hides a likely secret; see the file",
    ]
    document = json.loads(toolbus("trust", "--json", folder=folder).stdout)
    assert document["tokens"] == f"file:{folder / 'kept'}"
    assert document["servers"]["known"]["auth"] == {
        "type": "oauth",
        "client_id": "c",
        "client_secret": "***",
        "scopes": "read write",
        "resource": False,
    }
