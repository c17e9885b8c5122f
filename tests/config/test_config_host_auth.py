"""The sign-in settings of other hosts mean the same here, imported or read as they are."""

from pathlib import Path
from typing import Any

import pytest

from tests.config.test_config_editors import taken_over, written
from tests.inside.config import Secret
from toolbus.config import OAuth, load_config
from toolbus.errors import ConfigError

URL = "https://x.test/mcp"
WEB = {"type": "http", "url": URL}
ENDPOINTS = "endpoints are found in the metadata of the authorization server"
CALLBACK = "expected a loopback URL, such as http://127.0.0.1:3118/callback, or an https:// URL"
WELL_KNOWN = "https://auth.test/.well-known"

BLOCKS: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "claude code": (
        {
            "oauth": {
                "clientId": "c",
                "callbackPort": 8080,
                "scopes": "read write",
                "authServerMetadataUrl": f"{WELL_KNOWN}/oauth-authorization-server/tenant",
                "xaa": True,
            }
        },
        {
            "client_id": "c",
            "callback": "http://localhost:8080/callback",
            "scopes": ["read", "write"],
            "issuer": "https://auth.test/tenant",
        },
        ["oauth.xaa is ignored: it has no counterpart here"],
    ),
    "cursor": (
        {"auth": {"CLIENT_ID": "c", "CLIENT_SECRET": "${env:SECRET}", "scopes": ["read"]}},
        {"client_id": "c", "client_secret": "${env:SECRET}", "scopes": ["read"]},
        [],
    ),
    "vs code": ({"oauth": {"clientId": "c"}}, {"client_id": "c"}, []),
    "gemini cli": (
        {
            "oauth": {
                "enabled": True,
                "clientId": "c",
                "clientSecret": "${SECRET}",
                "authorizationUrl": "https://auth.test/authorize",
                "tokenUrl": "https://auth.test/token",
                "issuer": "https://auth.test",
                "scopes": ["read"],
                "audiences": ["a"],
                "redirectUri": "http://localhost:7777/oauth/callback",
                "tokenParamName": "",
            }
        },
        {
            "client_id": "c",
            "client_secret": "${SECRET}",
            "issuer": "https://auth.test",
            "scopes": ["read"],
            "callback": "http://localhost:7777/oauth/callback",
        },
        [
            f"oauth.authorizationUrl is ignored: {ENDPOINTS}",
            f"oauth.tokenUrl is ignored: {ENDPOINTS}",
            "oauth.audiences is ignored: it has no counterpart here",
        ],
    ),
    "gemini cli, discovered": ({"oauth": {"enabled": True}}, {}, []),
    "codex": (
        {
            "oauth": {"client_id": "c", "callback_url": "http://127.0.0.1:9/callback"},
            "scopes": ["read"],
            "oauth_resource": URL,
        },
        {"client_id": "c", "callback": "http://127.0.0.1:9/callback", "scopes": ["read"], "resource": URL},
        [],
    ),
    "zed": ({"oauth": {"client_id": "c"}}, {"client_id": "c"}, []),
    "a scheme of the host": (
        {"oauth": {"clientId": "c", "redirectUri": "cursor://callback"}},
        {"client_id": "c"},
        [f"oauth.redirectUri is ignored: {CALLBACK}"],
    ),
    "metadata elsewhere": (
        {"oauth": {"authServerMetadataUrl": "https://auth.test/meta.json"}},
        {},
        ["oauth.authServerMetadataUrl is ignored: it is not at a well-known place; set auth.issuer"],
    ),
}


@pytest.mark.parametrize("host", BLOCKS)
def test_the_sign_in_of_a_host_is_read_from_its_file_and_imported(host: str, tmp_path: Path) -> None:
    block, auth, warnings = BLOCKS[host]
    document = {"mcpServers": {"a": {**WEB, **block}}}
    read = load_config(written(tmp_path / ".mcp.json", document)).servers["a"]
    result = taken_over(tmp_path, document)

    assert read.auth == OAuth(type="oauth", **auth)
    assert list(read.warnings) == warnings
    assert result.servers == {"a": {"url": URL, "auth": {"type": "oauth", **auth}}}
    assert load_config({"servers": result.servers}).servers["a"].auth == read.auth
    remarks = [*warnings, "sign in: toolbus login a"]
    if "client_id" in auth and "callback" not in auth:
        remarks.append(
            "its client is registered for the callback of another host; "
            "set auth.callback to one that is registered for it"
        )
    assert list(result.notes) == [f"server 'a': {remark}" for remark in remarks]


@pytest.mark.parametrize(
    ("metadata", "issuer"),
    [
        (f"{WELL_KNOWN}/oauth-authorization-server", "https://auth.test"),
        (f"{WELL_KNOWN}/openid-configuration", "https://auth.test"),
        ("https://auth.test/t/.well-known/openid-configuration", "https://auth.test/t"),
    ],
)
def test_the_issuer_follows_from_where_its_metadata_is(metadata: str, issuer: str, tmp_path: Path) -> None:
    block = {"oauth": {"authServerMetadataUrl": metadata}}
    path = written(tmp_path / ".mcp.json", {"mcpServers": {"a": {**WEB, **block}}})

    assert load_config(path).servers["a"].auth == OAuth(type="oauth", issuer=issuer)


@pytest.mark.parametrize(
    "block",
    [
        {},
        {"oauth": None},
        {"oauth": False},
        {"oauth": {}},
        {"oauth": {"enabled": False, "clientId": "c"}},
        {"authProviderType": "dynamic_discovery"},
        {"authentication": {}},
    ],
)
def test_a_server_that_nobody_signs_in_to_has_no_auth(block: dict[str, Any], tmp_path: Path) -> None:
    document = {"mcpServers": {"a": {**WEB, **block}}}
    read = load_config(written(tmp_path / ".mcp.json", document)).servers["a"]

    assert (read.auth, read.warnings) == (None, ())
    assert taken_over(tmp_path, document).servers == {"a": {"url": URL}}


@pytest.mark.parametrize(
    ("entry", "warning"),
    [
        (
            {**WEB, "headers": {"authorization": "Bearer ${T}"}, "oauth": {"clientId": "c"}},
            "oauth is ignored: the entry has an Authorization header",
        ),
        ({**WEB, "auth": "${T}", "oauth": {"clientId": "c"}}, "oauth is ignored: the entry has auth"),
        ({"command": "x", "oauth": {"clientId": "c"}}, "oauth is ignored: it is for servers with a url"),
        (
            {**WEB, "authProviderType": "google_credentials"},
            "authProviderType is ignored: it has no counterpart here; set auth",
        ),
        ({**WEB, "oauth": "yes"}, "oauth is ignored: it has no counterpart here; set auth"),
        (
            {**WEB, "authentication": {"x": 1}},
            "authentication is ignored: it has no counterpart here; set auth",
        ),
    ],
)
def test_a_sign_in_that_does_not_come_over_is_warned_about(
    entry: dict[str, Any], warning: str, tmp_path: Path
) -> None:
    document = {"mcpServers": {"a": entry}}

    assert load_config(written(tmp_path / ".mcp.json", document)).servers["a"].warnings == (warning,)
    result = taken_over(tmp_path, document)
    assert (list(result.servers), result.notes) == (["a"], (f"server 'a': {warning}",))


@pytest.mark.parametrize(
    ("oauth", "key", "problem"),
    [
        ({"callbackPort": "80"}, "oauth.callbackPort", "expected a port"),
        ({"callbackPort": 70000}, "oauth.callbackPort", "expected a port"),
        (
            {"callbackPort": 1, "redirectUri": "http://localhost:2/"},
            "oauth.redirectUri",
            "callback is already",
        ),
        ({"clientId": 5}, "auth.client_id", "expected a string"),
    ],
)
def test_a_mistake_in_the_block_of_a_host_is_named(oauth: dict[str, Any], key: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config({"mcpServers": {"a": {**WEB, "oauth": oauth}}})

    assert (caught.value.key, caught.value.problem.startswith(problem)) == (key, True)


def test_a_literal_client_secret_becomes_a_reference(tmp_path: Path) -> None:
    block = {"auth": {"CLIENT_ID": "c", "CLIENT_SECRET": "s3cret"}}
    result = taken_over(tmp_path, {"mcpServers": {"my-crm": {**WEB, **block}}})

    assert result.servers["my-crm"]["auth"] == {
        "type": "oauth",
        "client_id": "c",
        "client_secret": "${MY_CRM_CLIENT_SECRET}",
    }
    assert result.secrets == (
        Secret(server="my-crm", key="auth.client_secret", name="MY_CRM_CLIENT_SECRET", value="s3cret"),
    )


@pytest.mark.parametrize(
    ("auth", "key"),
    [
        ({"type": "client_credentials", "client_id": "c", "client_secret": "s3cret"}, "client_secret"),
        ({"type": "client_credentials", "client_id": "c", "key": "-----BEGIN\ns3cret\n"}, "key"),
        ({"type": "identity_assertion", "client_id": "c", "assertion": "s3cret"}, "assertion"),
        ({"type": "workload", "token": "s3cret"}, "token"),
    ],
)
def test_the_secret_of_any_type_becomes_a_reference(auth: dict[str, Any], key: str, tmp_path: Path) -> None:
    issued = {**auth, "issuer": "https://auth.test"}
    result = taken_over(tmp_path, {"servers": {"a": {"url": URL, "auth": issued}}}, name="c.yaml")

    name = f"A_{key.upper()}"
    assert result.servers["a"]["auth"] == {**issued, key: f"${{{name}}}"}
    assert [(secret.key, secret.name, secret.value) for secret in result.secrets] == [
        (f"auth.{key}", name, auth[key])
    ]


def test_variables_of_gemini_cli_are_filled_in_inside_of_auth(tmp_path: Path) -> None:
    block = {"oauth": {"enabled": True, "clientId": "$ID", "scopes": ["$SCOPE", "read"]}}
    document = {"mcpServers": {"a": {"httpUrl": URL, **block}}}
    result = taken_over(tmp_path, document, editor="gemini", name="settings.json")

    assert result.servers["a"]["auth"] == {
        "type": "oauth",
        "client_id": "${ID}",
        "scopes": ["$SCOPE", "read"],
    }
