"""`auth` of every type is read, and each mistake in it is named with its key and the next step."""

from typing import Any

import pytest

from tests.config.conftest import misfits
from tests.config.test_config_entries import AUTH_TYPES
from toolbus.config import (
    Auth,
    BearerAuth,
    ClientCredentials,
    IdentityAssertion,
    OAuth,
    ServerConfig,
    Workload,
    load_config,
    load_server,
)
from toolbus.errors import ConfigError

URL = "https://x.test/mcp"
MACHINE = {"type": "client_credentials", "client_id": "bot"}
ASSERTION = "${cmd:idp-token --audience {issuer}}"
ISSUER = "https://auth.test"


def server(auth: object, **others: object) -> ServerConfig:
    return load_config({"servers": {"a": {"url": URL, "auth": auth, **others}}}).servers["a"]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("t0ken", BearerAuth(type="bearer", token="t0ken")),
        ({"type": "bearer", "token": "${T}"}, BearerAuth(type="bearer", token="${T}")),
        ("oauth", OAuth(type="oauth")),
        ("OAuth", OAuth(type="oauth")),
        ({"type": "oauth", "client_id": None, "scopes": "a  b:c"}, OAuth(type="oauth", scopes=("a", "b:c"))),
        (
            {
                "type": "oauth",
                "issuer": ISSUER,
                "client_id": "1601.88",
                "client_secret": "${SLACK:-}",
                "scopes": ["search:read"],
                "callback": "http://127.0.0.1:3118/callback",
                "resource": False,
                "prompt": "",
                "dpop": "never",
            },
            OAuth(
                type="oauth",
                issuer=ISSUER,
                client_id="1601.88",
                client_secret="${SLACK:-}",
                scopes=("search:read",),
                callback="http://127.0.0.1:3118/callback",
                resource=False,
                prompt="",
                dpop="never",
            ),
        ),
        (
            {"type": "oauth", "client_metadata": "https://me.test/client.json", "resource": "api://x"},
            OAuth(type="oauth", client_metadata="https://me.test/client.json", resource="api://x"),
        ),
        (
            {**MACHINE, "issuer": ISSUER, "client_secret": "${BOT}"},
            ClientCredentials(
                type="client_credentials", client_id="bot", issuer=ISSUER, client_secret="${BOT}"
            ),
        ),
        (
            {**MACHINE, "issuer": ISSUER, "key": "${file:bot.pem}", "algorithm": "RS256"},
            ClientCredentials(
                type="client_credentials",
                client_id="bot",
                issuer=ISSUER,
                key="${file:bot.pem}",
                algorithm="RS256",
            ),
        ),
        (
            {"type": "identity_assertion", "issuer": ISSUER, "client_id": "c", "assertion": ASSERTION},
            IdentityAssertion(type="identity_assertion", issuer=ISSUER, client_id="c", assertion=ASSERTION),
        ),
        (
            {"type": "workload", "issuer": ISSUER, "token": "${file:/run/t}"},
            Workload(type="workload", issuer=ISSUER, token="${file:/run/t}"),
        ),
    ],
)
def test_every_type_is_read_as_written_and_comes_back_from_its_own_form(written: object, read: Auth) -> None:
    found = server(written)

    assert (found.auth, found.warnings) == (read, ())
    assert server(read.model_dump(mode="json", exclude_defaults=True)).auth == read
    assert "s3cret" not in repr(found)


@pytest.mark.parametrize(
    "callback",
    [
        "http://localhost:9/callback",
        "http://[::1]:9/",
        "http://127.0.0.1/callback",
        "https://app.test/cb",
        "${CALLBACK}",
    ],
)
def test_a_callback_is_a_loopback_or_an_encrypted_url(callback: str) -> None:
    assert server({"type": "oauth", "callback": callback}).auth == OAuth(type="oauth", callback=callback)


CALLBACK = "expected a loopback URL, such as http://127.0.0.1:3118/callback, or an https:// URL"
METADATA = "expected an https:// URL with a path, such as https://example.com/client.json"
WHERE = "expected the URL of an authorization server, such as https://auth.example.com, without a query"
SCOPES = "a scope is empty or contains a space or a quote; list one scope per item"
RESOURCE = "expected true, false, or the URI of the server, without spaces and without a fragment"
WRONG: list[tuple[object, str, str]] = [
    ("client_credentials", "auth", "needs a mapping with its keys: {type: client_credentials, ...}"),
    (
        {"token": "s3cret"},
        "auth.type",
        f"is missing; set it to one of {AUTH_TYPES}",
    ),
    (
        {"type": "client_credential", "client_secret": "s3cret"},
        "auth.type",
        f"expected one of {AUTH_TYPES}; did you mean 'client_credentials'?",
    ),
    ({"type": "oauth", "clientId": "s3cret"}, "auth.clientId", "unknown key; did you mean 'client_id'?"),
    ({"type": "oauth", "CLIENT_ID": "s3cret"}, "auth.CLIENT_ID", "unknown key; did you mean 'client_id'?"),
    ({"type": "oauth", "x": 1}, "auth.x", "unknown key"),
    (
        {"type": "oauth", "key": "s3cret"},
        "auth.key",
        "is a key of client_credentials, token_exchange, not of oauth",
    ),
    ({"type": "oauth", "client_id": ""}, "auth.client_id", "expected a non-empty string"),
    ({"type": "oauth", "client_id": 5}, "auth.client_id", "expected a string; put it in quotes"),
    (
        {"type": "oauth", "client_secret": "s3cret"},
        "auth.client_secret",
        "is the secret of a client; set its client_id",
    ),
    (
        {"type": "oauth", "client_id": "c", "client_metadata": "https://x.test/c"},
        "auth.client_metadata",
        "client_id and client_metadata are mutually exclusive; keep one",
    ),
    *(
        ({"type": "oauth", "callback": url}, "auth.callback", CALLBACK)
        for url in (
            "http://app.test/cb",
            "http://127.0.0.1.evil.test/cb",
            "myapp://callback",
            "localhost:9",
            "http://s3cret@127.0.0.1/cb",
            "http://127.0.0.1:99999/cb",
            "https://app.test/cb#s3cret",
            "http://[::1",
        )
    ),
    *(
        ({"type": "oauth", "client_metadata": url}, "auth.client_metadata", METADATA)
        for url in ("http://me.test/c.json", "https://me.test", "https://me.test/", "c.json")
    ),
    *(
        ({"type": "oauth", "issuer": url}, "auth.issuer", WHERE)
        for url in ("auth.test", "ftp://auth.test", "https://", "https://u:s3cret@a.test", "https://a.test?x")
    ),
    *(
        ({"type": "oauth", "scopes": scopes}, "auth.scopes", SCOPES)
        for scopes in (["a b"], [""], ['"'], ["\n"], ["ä"])
    ),
    (
        {"type": "oauth", "scopes": ["${SCOPE}"]},
        "auth.scopes",
        "a scope cannot contain a reference; write the scopes",
    ),
    ({"type": "oauth", "scopes": 5}, "auth.scopes", "expected a list of scopes"),
    ({"type": "oauth", "scopes": [5]}, "auth.scopes", "expected a list of scopes"),
    ({"type": "oauth", "resource": "a b"}, "auth.resource", RESOURCE),
    ({"type": "oauth", "resource": ""}, "auth.resource", RESOURCE),
    ({"type": "oauth", "resource": "https://x.test#s3cret"}, "auth.resource", RESOURCE),
    ({"type": "oauth", "resource": 5}, "auth.resource", "expected true, false, or the URI of the server"),
    ({"type": "oauth", "dpop": True}, "auth.dpop", "expected 'auto', 'always' or 'never'"),
    (
        {"type": "oauth", "prompt": "a&b"},
        "auth.prompt",
        "expected words, such as consent or login, or nothing",
    ),
    (MACHINE, "auth.client_secret", "is missing; set client_secret or key"),
    (
        {**MACHINE, "client_secret": "s3cret", "key": "s3cret"},
        "auth.key",
        "client_secret and key are mutually exclusive; keep one",
    ),
    (
        {**MACHINE, "client_secret": "s3cret", "algorithm": "RS256"},
        "auth.algorithm",
        "is only used with key; set key, or remove algorithm",
    ),
    (
        {"type": "client_credentials", "client_secret": "s3cret"},
        "auth.client_id",
        "is missing; client_credentials needs client_id",
    ),
    (
        {"type": "identity_assertion", "client_id": "c"},
        "auth.assertion",
        "is missing; identity_assertion needs client_id and assertion",
    ),
    ({"type": "workload"}, "auth.token", "is missing; workload needs token"),
]


@pytest.mark.parametrize(("auth", "key", "problem"), WRONG)
def test_a_mistake_is_named_with_its_key_and_without_any_value(auth: object, key: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        server(auth)

    error = caught.value
    assert (error.server, error.key, error.problem) == ("a", key, problem)
    assert "s3cret" not in str(error)


def test_all_mistakes_of_an_auth_are_named_at_once() -> None:
    auth = {"type": "oauth", "client_secret": "s3cret", "callback": "x", "issuer": "y"}
    with pytest.raises(ConfigError) as caught:
        server(auth)

    assert [mistake.key for mistake in caught.value.mistakes] == [
        "auth.client_secret",
        "auth.issuer",
        "auth.callback",
    ]


@pytest.mark.parametrize("entry", [{"command": "x"}, {"server": object()}])
def test_a_server_without_a_url_takes_no_auth(entry: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        load_server({**entry, "auth": "oauth"}, alias="a")

    assert str(caught.value) == (
        "server 'a': auth: is for servers with a url; give a program its secrets in env"
    )


def test_auth_and_an_authorization_header_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match="auth and an Authorization header are mutually exclusive"):
        server("oauth", headers={"authorization": "Bearer s3cret"})


@pytest.mark.parametrize(
    "auth",
    [
        {**MACHINE, "client_secret": "s3cret"},
        {"type": "identity_assertion", "client_id": "c", "assertion": "s3cret"},
        {"type": "workload", "token": "s3cret"},
    ],
)
def test_credentials_for_any_authorization_server_are_warned_about(auth: dict[str, Any]) -> None:
    (warning,) = server(auth).warnings

    assert warning == (
        "auth has no issuer, so the server decides which authorization server gets the credentials; "
        "set auth.issuer"
    )
    assert server({**auth, "issuer": ISSUER}).warnings == ()


def test_a_model_made_by_hand_checks_itself() -> None:
    with pytest.raises(ConfigError, match="client_secret: is missing; set client_secret or key"):
        ClientCredentials(type="client_credentials", client_id="c")

    assert repr(OAuth(type="oauth", client_id="c", client_secret="s3cret")).count("s3cret") == 0


@pytest.mark.parametrize(
    "auth",
    [
        {"type": "oauth", "key": "k"},
        {"type": "oauth", "dpop": "no"},
        {"type": "client_credentials", "client_id": "c"},
        {"type": "workload", "token": None},
        {"type": "magic"},
        {"client_id": "c"},
        5,
        "",
    ],
)
def test_an_editor_marks_an_invalid_auth(auth: object) -> None:
    assert misfits({"servers": {"a": {"url": URL, "auth": auth}}}) != []
