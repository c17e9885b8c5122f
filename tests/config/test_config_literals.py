"""Credentials written out in a host's file become references, and nothing shows them."""

import asyncio
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.config.test_config_secrecy import random_texts
from tests.inside.config import ImportedServers, ImportFile, Secret, as_yaml, imported
from toolbus.config import Resolved, Secrets, load_config, load_server, resolved
from toolbus.errors import ToolbusError

GITHUB = "ghp_" + "a1B2c3D4" * 4
OPENAI = "sk-proj-" + "a1B2c3D4" * 3


def taken(
    folder: Path, servers: Mapping[str, Any], names: Mapping[str, str] | None = None
) -> ImportedServers:
    path = folder / "c.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    return imported(ImportFile(path=path), taken=names)


def resolve(entry: object, names: Mapping[str, str]) -> Resolved:
    return asyncio.run(resolved(load_server(entry, alias="a"), Secrets({"R": "r", **names}.get)))


def http(**more: object) -> dict[str, object]:
    return {"url": "https://x.test/mcp", **more}


CASES: list[tuple[dict[str, Any], dict[str, Any], list[tuple[str, str, str]]]] = [
    (
        {"command": "x", "env": {"API_KEY": "k", "LEVEL": "info", "SOME": GITHUB, "AUTH": "true"}},
        {
            "command": "x",
            "env": {"API_KEY": "${API_KEY}", "LEVEL": "info", "SOME": "${SOME}", "AUTH": "true"},
        },
        [("env.API_KEY", "API_KEY", "k"), ("env.SOME", "SOME", GITHUB)],
    ),
    (
        {
            "command": "x",
            "env": {"DATABASE_URL": "postgres://me:pw@h/db", "HEADERS": f"{{'A': 'Bearer {OPENAI}'}}"},
        },
        {
            "command": "x",
            "env": {
                "DATABASE_URL": "postgres://me:${MY_SERVER_PASSWORD}@h/db",
                "HEADERS": "{'A': 'Bearer ${MY_SERVER_TOKEN}'}",
            },
        },
        [
            ("env.DATABASE_URL", "MY_SERVER_PASSWORD", "pw"),
            ("env.HEADERS", "MY_SERVER_TOKEN", OPENAI),
        ],
    ),
    (
        http(headers={"Authorization": "Bearer abc", "X-Api-Key": "k y", "X-Team": "a"}),
        http(
            headers={
                "Authorization": "Bearer ${MY_SERVER_TOKEN}",
                "X-Api-Key": "${MY_SERVER_API_KEY}",
                "X-Team": "a",
            }
        ),
        [
            ("headers.Authorization", "MY_SERVER_TOKEN", "abc"),
            ("headers.X-Api-Key", "MY_SERVER_API_KEY", "k y"),
        ],
    ),
    (
        http(headers={"authorization": "abc"}),
        http(headers={"authorization": "${MY_SERVER_TOKEN}"}),
        [("headers.authorization", "MY_SERVER_TOKEN", "abc")],
    ),
    (
        http(auth="abc"),
        http(auth={"type": "bearer", "token": "${MY_SERVER_TOKEN}"}),
        [("auth.token", "MY_SERVER_TOKEN", "abc")],
    ),
    (
        {"url": "https://me:p%40w@x.test/mcp?a=1&apiKey=k%20y&b=${R}"},
        {"url": "https://me:${MY_SERVER_PASSWORD}@x.test/mcp?a=1&apiKey=${MY_SERVER_API_KEY}&b=${R}"},
        [("url", "MY_SERVER_PASSWORD", "p%40w"), ("url", "MY_SERVER_API_KEY", "k%20y")],
    ),
    (
        {"url": f"https://t0ken@x.test/{OPENAI}/sse"},
        {"url": "https://${MY_SERVER_TOKEN}@x.test/${MY_SERVER_TOKEN_2}/sse"},
        [("url", "MY_SERVER_TOKEN", "t0ken"), ("url", "MY_SERVER_TOKEN_2", OPENAI)],
    ),
    (
        {"command": "x", "args": ["--api-key", "k", "--token=t", "-e", "GH_TOKEN=g", "--max", "5", GITHUB]},
        {
            "command": "x",
            "args": [
                *("--api-key", "${MY_SERVER_API_KEY}", "--token=${MY_SERVER_TOKEN}"),
                *("-e", "GH_TOKEN=${GH_TOKEN}", "--max", "5", "${MY_SERVER_TOKEN_2}"),
            ],
        },
        [
            ("args[1]", "MY_SERVER_API_KEY", "k"),
            ("args[2]", "MY_SERVER_TOKEN", "t"),
            ("args[4]", "GH_TOKEN", "g"),
            ("args[7]", "MY_SERVER_TOKEN_2", GITHUB),
        ],
    ),
    (
        {"command": "npx", "args": ["mcp-remote", "https://x.test", "--header", "Authorization: Bearer abc"]},
        {
            "command": "npx",
            "args": ["mcp-remote", "https://x.test", "--header", "Authorization: Bearer ${MY_SERVER_TOKEN}"],
        },
        [("args[3]", "MY_SERVER_TOKEN", "abc")],
    ),
]


@pytest.mark.parametrize(("entry", "expected", "secrets"), CASES)
def test_a_credential_becomes_a_reference_that_means_the_same(
    entry: dict[str, Any], expected: dict[str, Any], secrets: list[tuple[str, str, str]], tmp_path: Path
) -> None:
    result = taken(tmp_path, {"my-server": entry})

    assert result.servers == {"my-server": expected}
    assert result.secrets == tuple(
        Secret(server="my-server", key=key, name=name, value=value) for key, name, value in secrets
    )
    before = resolve(entry, {})
    after = resolve(result.servers["my-server"], {secret.name: secret.value for secret in result.secrets})
    for field in ("command", "args", "env", "url", "headers"):
        assert getattr(after, field) == getattr(before, field)


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "x", "env": {"TOKEN": "${TOKEN}", "KEY": "Bearer ${KEY}", "AUTH": "", "PAT": "$PAT"}},
        {"command": "x", "env": {"SECRET": "%SECRET%", "API_KEY": "${env:API_KEY}", "PASS": "${P:-sk-1}"}},
        {
            "command": "x",
            "args": ["--no-auth", "https://x.test", "--token", "--verbose", "task-management-1"],
        },
        {
            "command": "x",
            "args": ["--token-file", "/t", "ssh://git@x.test/a", "C:\\x", "https://x.test/@a/b"],
        },
        {
            "command": "x",
            "args": ["--token", "${T}", "Authorization:${A}", "--key=${file:/a@b?key=c}", "sk-learn-mcp"],
        },
        http(headers={"Authorization": "Bearer ${env:T}", "X-Author": "me"}, auth=None),
        {"url": "https://${U}:${P}@x.test:8443/mcp?key=${K}&page=2"},
    ],
)
def test_references_and_plain_values_stay_as_they_are(entry: dict[str, Any], tmp_path: Path) -> None:
    result = taken(tmp_path, {"a": entry})

    assert result.servers == {"a": {key: value for key, value in entry.items() if value is not None}}
    assert result.secrets == ()


def test_one_name_never_stands_for_two_values(tmp_path: Path) -> None:
    def server(token: str) -> dict[str, Any]:
        return {"command": "x", "env": {"TOKEN": token}}

    servers = {"a": server("1-one"), "b": server("2-two"), "c": server("1-one"), "B": server("3-three")}
    result = taken(tmp_path, servers, {"A_TOKEN": "other"})
    other = taken(tmp_path, {"d": server("${TOKEN}"), "e": server("5-five")})
    later = taken(tmp_path, {"f": server("6-six")}, {"TOKEN": "1-one"})

    assert [(secret.name, secret.value) for secret in result.secrets] == [
        ("TOKEN", "1-one"),
        ("B_TOKEN", "2-two"),
        ("TOKEN", "1-one"),
        ("B_TOKEN_2", "3-three"),
    ]
    same = taken(tmp_path, {"g": {"command": "x", "args": ["--token", "7-seven", "${G_TOKEN}"]}})
    assert [secret.name for result in (other, later, same) for secret in result.secrets] == [
        "E_TOKEN",
        "F_TOKEN",
        "G_TOKEN_2",
    ]


def test_an_argument_that_refers_to_a_variable_of_its_server_follows_it(tmp_path: Path) -> None:
    def remote(token: str) -> dict[str, Any]:
        return {"command": "npx", "args": ["--header", "X-Token:${HEADER}"], "env": {"HEADER": token}}

    result = taken(tmp_path, {"a": remote(GITHUB), "b": remote(OPENAI)})

    assert [entry["args"][1] for entry in result.servers.values()] == [
        "X-Token:${A_HEADER}",
        "X-Token:${B_HEADER}",
    ]


@pytest.mark.parametrize(
    ("alias", "name"),
    [("1password", "_1PASSWORD_TOKEN"), ("Über mich", "BER_MICH_TOKEN"), ("搜索", "SERVER_TOKEN")],
)
def test_any_alias_gives_a_legal_name(alias: str, name: str, tmp_path: Path) -> None:
    result = taken(tmp_path, {alias: http(auth="abc")})

    assert [secret.name for secret in result.secrets] == [name]
    load_config({"servers": result.servers})


def test_nothing_shows_a_secret(tmp_path: Path) -> None:
    for entry, _, secrets in CASES:
        result = taken(tmp_path, {"a": {**entry, "trust_annotations": True}, "b": {**entry, "nonsense": 1}})
        shown = [repr(result), *map(repr, result.secrets), *result.notes, as_yaml(result.servers)]
        for _, _, value in secrets:
            if len(value) > 3:
                assert value not in "\n".join(shown)


def test_whatever_is_written_means_the_same_afterwards(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    dice = random.Random(3)
    count = 1200 if request.config.getoption("--full") else 300
    texts = [text for text in random_texts(count) if "\n" not in text]
    for text, other in zip(texts[::2], texts[1::2], strict=False):
        shape = dice.choice(
            ["{0}", "https://u:{0}@h/{1}?key={1}", "x{0} Bearer 12345678", "{0}" + OPENAI + "{1}"]
        )
        value = shape.replace("{0}", text).replace("{1}", other)
        entry = {
            "command": "x",
            "args": ["--token", value, f"KEY={value}", value],
            "env": {"KEY": value, "E": value},
        }
        try:
            before = resolve(entry, dict.fromkeys("abn", "filled"))
        except ToolbusError:
            continue
        result = taken(tmp_path, {"a": entry})
        names = {secret.name: secret.value for secret in result.secrets}
        after = resolve(result.servers["a"], {**dict.fromkeys("abn", "filled"), **names})
        assert (after.args, after.env) == (before.args, before.env), value
