"""The `serve` of a config: valid settings, mistakes, and allowed addresses."""

from pathlib import Path
from typing import Any

import pytest

from tests.config.conftest import misfits
from tests.inside.config import Serve, ServeAuth, ServeView, Tls, setting
from tests.inside.core import Budget, ConfigError
from toolbus.config import load_config

SERVERS: dict[str, Any] = {"servers": {"files": {"command": "x"}, "web": {"command": "y"}}}
ISSUER = {"issuer": "https://id.example.com", "audience": "tools"}


def read(serve: Any) -> Serve:
    found = load_config({**SERVERS, "serve": serve}).serve
    assert found is not None
    return found


def test_by_default_it_listens_on_this_machine_only() -> None:
    found = read({})
    assert (found.address, found.is_local, found.auth.is_needed) == (("127.0.0.1", 7400), True, False)
    assert found.view("default") == ServeView()
    assert found.view("other") is None
    assert load_config(SERVERS).serve is None


def test_a_whole_section_is_read() -> None:
    found = read(
        {
            "http": "[::]:443",
            "hosts": ["tools.example.com", "[2001:db8::1]:443"],
            "public_url": "https://tools.example.com/",
            "origins": ["https://app.example.com"],
            "trusted_proxies": ["10.0.0.5", "fd00::/8"],
            "auth": {"keys": True, "oauth": {**ISSUER, "scopes": {"tools:read": "research"}}},
            "views": {
                "all": None,
                "research": {"servers": ["web"], "policy": [{"do": "deny"}], "budget": 1000, "user": "ann"},
            },
            "default_view": "all",
        }
    )
    assert found.address == ("::", 443)
    assert found.resource == "https://tools.example.com/mcp"
    assert found.auth.oauth is not None
    assert found.auth.oauth.audience == ("tools",)
    assert (found.view("all"), found.view("default")) == (ServeView(), None)
    research = found.view("research")
    assert research is not None
    assert (research.servers, research.policy[0].do, research.user) == (("web",), "deny", "ann")
    assert research.budget == Budget(characters=1000, tokens=None)


def test_files_are_relative_to_the_config(tmp_path: Path) -> None:
    text = "servers: {a: {command: x}}\nserve: {tls: {cert: tls/cert.pem, key: /etc/key.pem}}\n"
    (tmp_path / "toolbus.yaml").write_text(text)
    found = load_config(tmp_path / "toolbus.yaml").serve
    assert found is not None
    assert found.tls == Tls(cert=str(tmp_path / "tls" / "cert.pem"), key="/etc/key.pem")


@pytest.mark.parametrize(
    ("serve", "mistake"),
    [
        (True, "serve: expected a mapping"),
        ({"htp": "1"}, "serve.htp: unknown key; did you mean 'http'?"),
        *(
            ({key: value}, f"serve.{key}: unknown key; the address is 'http', as HOST:PORT: serve: {{http: ")
            for key, value in {"port": 8000, "host": "0.0.0.0", "listen": ":1", "address": "x"}.items()
        ),
        ({"http": "7400"}, "serve.http: expected HOST:PORT"),
        ({"http": "127.0.0.1:99999"}, "serve.http: expected HOST:PORT"),
        ({"path": "mcp"}, "serve.path: expected a path such as /mcp"),
        ({"hosts": "tools.example.com"}, "serve.hosts: expected a list of strings"),
        ({"hosts": ["https://tools.example.com"]}, "serve.hosts[0]: expected a host alone"),
        ({"hosts": ["❤.example.com"]}, "serve.hosts[0]: expected a host alone"),
        ({"origins": ["https://❤.example.com"]}, "serve.origins[0]: expected an origin"),
        ({"public_url": "https://❤.example.com"}, "serve.public_url: expected a URL"),
        ({"hosts": ["*.example.com"]}, "serve.hosts[0]: expected a host alone"),
        ({"origins": ["*"]}, "serve.origins[0]: expected an origin"),
        ({"trusted_proxies": ["proxy"]}, "serve.trusted_proxies[0]: expected an address or a network"),
        ({"public_url": "http://localhost:7400/mcp"}, "serve.public_url: leave /mcp out"),
        ({"tls": {"cert": "a.pem"}}, "serve.tls.key: is missing"),
        ({"auth": {"key": True}}, "serve.auth.key: unknown key; did you mean 'keys'?"),
        ({"auth": {"keys": "yes"}}, "serve.auth.keys: expected true or false"),
        ({"auth": {"oauth": {**ISSUER, "issuer": "id"}}}, "serve.auth.oauth.issuer: expected the URL"),
        ({"auth": {"oauth": {"issuer": "https://a"}}}, "serve.auth.oauth.audience: is missing; set it"),
        ({"auth": {"oauth": {**ISSUER, "scopes": ["a"]}}}, "serve.auth.oauth.scopes: expected a mapping"),
        (
            {"auth": {"oauth": {**ISSUER, "scopes": {"read": "defalt"}}}},
            "serve.auth.oauth.scopes.read: no view is named 'defalt'; did you mean 'default'?",
        ),
        (
            {"auth": {"oauth": {**ISSUER, "introspection": {"client_id": "gateway"}}}},
            "serve.auth.oauth.introspection.client_secret: is missing",
        ),
        ({"views": {"a/b": {}}, "default_view": "a/b"}, "serve.views.a/b: expected a name of letters"),
        ({"views": {"research": {}}}, "serve.default_view: is missing; name the view of clients"),
        (
            {"views": {"research": {}}, "default_view": "reserch"},
            "serve.default_view: no view is named 'reserch'; did you mean 'research'?",
        ),
        (
            {"views": {"default": {"servers": ["file"]}}},
            "serve.views.default.servers: no server has the alias 'file'; did you mean 'files'?",
        ),
        ({"views": {"default": {"include": "a"}}}, "serve.views.default.include: expected a list of strings"),
        ({"views": {"default": {"policy": [{"do": "no"}]}}}, "serve.views.default.policy[0].do: expected"),
        ({"views": {"default": {"budget": 1}}}, "serve.views.default.budget: expected a number"),
        ({"max_sessions": 0}, "serve.max_sessions: expected 1 or more"),
    ],
)
def test_a_mistake_is_named(serve: object, mistake: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_config({**SERVERS, "serve": serve})
    assert str(raised.value).startswith(mistake)


@pytest.mark.parametrize("http", ["0.0.0.0:7400", "[::]:7400", "10.0.0.7:7400", "tools.example.com:7400"])
def test_listening_beyond_this_machine_without_authentication(http: str) -> None:
    """It does not start, and says what to set."""
    mistake = "serve.http: would be open to others without authentication; set serve.auth: {keys: true}"
    with pytest.raises(ConfigError, match="without authentication") as raised:
        read({"http": http, "hosts": ["tools.example.com"]})
    assert str(raised.value).startswith(mistake)
    with pytest.raises(ConfigError, match="without authentication"):
        read({"hosts": ["tools.example.com"]}).listening_at(http)


def test_a_public_url_without_authentication() -> None:
    """It does not start: a proxy would let anyone in."""
    with pytest.raises(ConfigError, match=r"^serve.public_url: would be open to others"):
        read({"public_url": "https://tools.example.com"})
    assert read({"public_url": "http://localhost:7400"}).is_local


def test_listening_beyond_this_machine_without_a_name() -> None:
    """It does not start, because every name would be accepted."""
    with pytest.raises(ConfigError, match=r"^serve.hosts: is missing; list the names"):
        read({"http": "0.0.0.0:7400", "auth": {"keys": True}})
    named = read({"http": "0.0.0.0:7400", "auth": {"keys": True}, "public_url": "https://tools.example.com"})
    assert list(named.warnings) == []


def test_keys_without_encryption_are_warned_about() -> None:
    open_to_all = read({"http": "0.0.0.0:80", "auth": {"keys": True}, "hosts": ["tools"]})
    assert [text.partition(";")[0] for text in open_to_all.warnings] == [
        "keys and tokens are sent unencrypted"
    ]
    assert list(read({}).warnings) == []


def test_another_address_keeps_the_rest() -> None:
    local = read({"auth": {"keys": True}, "hosts": ["tools"], "drain": 3})
    moved = local.listening_at("0.0.0.0:80")
    assert moved == Serve(http="0.0.0.0:80", auth=ServeAuth(keys=True), hosts=("tools",), drain=3)


def test_the_secret_of_the_gateway_is_not_shown() -> None:
    asking = {"client_id": "gateway", "client_secret": "hunter2"}
    found = read({"auth": {"oauth": {**ISSUER, "introspection": asking}}})
    assert "hunter2" not in repr(found)
    assert "hunter2" not in str(found.model_dump())
    referenced = setting(
        "serve", {"auth": {"oauth": {**ISSUER, "introspection": {**asking, "client_secret": "${GATEWAY}"}}}}
    )
    assert "${GATEWAY}" in str(referenced.model_dump())


def test_the_key_of_another_host_is_left_alone() -> None:
    editor = {"mcpServers": SERVERS["servers"], "serve": {"port": 3000}}
    assert load_config(editor).serve is None
    assert load_config({**editor, "serve": {"http": "127.0.0.1:1"}}).serve is not None


@pytest.mark.parametrize(
    ("serve", "is_valid"),
    [
        ({}, True),
        (None, True),
        ({"auth": {"keys": True, "oauth": ISSUER}, "views": {"default": {"budget": False}}}, True),
        ({"auth": {"oauth": {**ISSUER, "audience": ["a", "b"], "introspection": None}}}, True),
        ({"htp": "a"}, False),
        ({"auth": {"oauth": {"audience": "a"}}}, False),
        ({"views": {"default": {"server": []}}}, False),
    ],
)
def test_the_schema_for_editors_agrees(serve: object, is_valid: bool) -> None:
    assert (not list(misfits({**SERVERS, "serve": serve}))) is is_valid


@pytest.mark.parametrize(
    ("serve", "has_console"),
    [
        ({}, True),
        ({"http": "[::1]:0"}, True),
        ({"console": False}, False),
        ({"public_url": "http://localhost:7400"}, True),
        ({"public_url": "https://tools.example.com", "auth": {"keys": True}}, False),
        ({"http": "0.0.0.0:1", "hosts": ["a.example"], "auth": {"keys": True}}, False),
        ({"http": "0.0.0.0:1", "hosts": ["a.example"], "auth": {"keys": True}, "console": True}, True),
    ],
)
def test_the_console_is_there_if_only_this_machine_reaches_it_or_if_asked_for(
    serve: Any, has_console: bool
) -> None:
    assert read(serve).has_console is has_console


@pytest.mark.parametrize("path", ["/console", "/console/mcp"])
def test_the_path_of_the_console_is_taken(path: str) -> None:
    with pytest.raises(ConfigError, match=r"serve.path: /console is the path of the page for people"):
        read({"path": path})
