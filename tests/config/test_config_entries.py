"""One server entry: its keys, their effects, and the errors."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from toolbus.config import BearerAuth, BusConfig, ServerConfig, Timeouts, load_config, load_server
from toolbus.errors import ConfigError, ToolbusError


def one(entry: object, **settings: object) -> ServerConfig:
    return load_config({"servers": {"a": entry}, **settings}).servers["a"]


def test_every_field_is_read_and_kept_as_written() -> None:
    entry = {
        "transport": "stdio",
        "command": "npx",
        "args": ["-y", "${PKG}"],
        "env": {"TOKEN": "${TOKEN}"},
        "env_file": "x.env",
        "inherit_env": ["PATH", "LANG"],
        "cwd": "sub",
        "enabled": True,
        "required": True,
        "include": ["read_*"],
        "exclude": ["read_secret"],
        "prefix": "f",
        "timeouts": {"call": 2},
        "max_concurrency": 4,
        "era": "legacy",
    }

    assert one(entry, timeouts={"call": 1, "connect": 7}) == ServerConfig(
        alias="a",
        transport="stdio",
        command="npx",
        args=("-y", "${PKG}"),
        env={"TOKEN": "${TOKEN}"},
        env_file="x.env",
        inherit_env=("PATH", "LANG"),
        cwd="sub",
        required=True,
        include=("read_*",),
        exclude=("read_secret",),
        prefix="f",
        timeouts=Timeouts(connect=7, call=2),
        max_concurrency=4,
        era="legacy",
    )


@pytest.mark.parametrize(
    ("word", "transport"),
    [
        ("http", "streamable-http"),
        ("streamable-http", "streamable-http"),
        ("streamable_http", "streamable-http"),
        ("streamableHttp", "streamable-http"),
        ("streamablehttp", "streamable-http"),
        ("websocket", "streamable-http"),
        ("sse", "sse"),
    ],
)
@pytest.mark.parametrize("key", ["transport", "type", "transportType"])
def test_every_word_for_a_transport_is_understood(key: str, word: str, transport: str) -> None:
    assert one({key: word, "url": "https://x.test"}).transport == transport


@pytest.mark.parametrize(
    ("entry", "transport"),
    [
        ({"command": "npx"}, "stdio"),
        ({"url": "https://x.test/mcp"}, "streamable-http"),
        ({"url": "https://x.test/sse"}, "sse"),
        ({"url": "https://x.test/v1/sse/?a=/b"}, "sse"),
        ({"url": "https://x.test/mcp?next=/sse"}, "streamable-http"),
        ({"url": "https://x.test/sse/mcp"}, "streamable-http"),
        ({"url": "http://[::1]:8000/sse"}, "sse"),
        ({"url": "${BASE}/sse"}, "sse"),
        ({"url": "https://sse"}, "streamable-http"),
        ({"url": "https://[broken/sse"}, "streamable-http"),
        ("HTTPS://x.test/mcp", "streamable-http"),
        ({"server": object()}, "memory"),
        ({"server": object(), "transport": "memory"}, "memory"),
        (object(), "memory"),
    ],
)
def test_the_transport_follows_from_the_rest(entry: object, transport: str) -> None:
    assert one(entry).transport == transport


@pytest.mark.parametrize(
    ("foreign", "ours"),
    [
        ({"command": ["npx", "-y"], "args": ["pkg"]}, {"command": "npx", "args": ["-y", "pkg"]}),
        ({"command": "x", "workingDirectory": "d"}, {"command": "x", "cwd": "d"}),
        ({"command": "x", "envFile": "e"}, {"command": "x", "env_file": "e"}),
        ({"command": "x", "includeTools": ["a"]}, {"command": "x", "include": ["a"]}),
        ({"command": "x", "tool_allowlist": ["a"]}, {"command": "x", "include": ["a"]}),
        ({"command": "x", "tools": ["*"]}, {"command": "x", "include": ["*"]}),
        ({"command": "x", "excludeTools": ["a"]}, {"command": "x", "exclude": ["a"]}),
        ({"command": "x", "disabledTools": ["a"]}, {"command": "x", "exclude": ["a"]}),
        ({"command": "x", "timeout": 60}, {"command": "x", "timeouts": {"call": 60}}),
        ({"command": "x", "timeout": 30000}, {"command": "x", "timeouts": {"call": 30}}),
        ({"command": "x", "timeout": 9, "timeouts": {"call": 8}}, {"command": "x", "timeouts": {"call": 8}}),
        ({"command": "x", "type": "stdio", "transport": "stdio"}, {"command": "x"}),
        (
            {"url": "https://x.test", "type": "http", "transport": "streamable-http"},
            {"url": "https://x.test"},
        ),
        ({"command": "x", "env": None, "cwd": "", "url": " "}, {"command": "x"}),
        (
            {"url": "https://x.test", "auth": "t0ken"},
            {"url": "https://x.test", "auth": {"type": "bearer", "token": "t0ken"}},
        ),
    ],
)
def test_foreign_words_mean_what_their_host_means(foreign: object, ours: object) -> None:
    assert one(foreign) == one(ours)


def test_an_empty_prefix_is_kept_since_it_means_no_prefix() -> None:
    assert (one({"command": "x", "prefix": ""}).prefix, one({"command": "x"}).prefix) == ("", None)


def test_servers_that_are_switched_off_are_left_out_and_not_checked() -> None:
    config = load_config(
        {
            "servers": {
                "off": {"enabled": False, "nonsense": 1},
                "disabled": {"disabled": True, "auth": "oauth"},
                "on": {"command": "x", "disabled": False},
                "unwanted": {"nonsense": 1},
            },
            "enabled_servers": ["on", "off"],
        }
    )

    assert config.servers == {"on": ServerConfig(alias="on", transport="stdio", command="x")}


def test_a_relative_ca_bundle_lies_beside_the_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    path = tmp_path / "c.yaml"
    path.write_text(
        "servers:\n"
        "  near: {url: 'https://x.test', verify: certs/ca.pem}\n"
        "  home: {url: 'https://x.test', verify: ~/ca.pem}\n"
        "  far: {url: 'https://x.test', verify: /etc/ca.pem}\n"
        "  none: {url: 'https://x.test', verify: false}\n"
    )

    assert {alias: server.verify for alias, server in load_config(path).servers.items()} == {
        "near": str(tmp_path / "certs/ca.pem"),
        "home": "/home/me/ca.pem",
        "far": "/etc/ca.pem",
        "none": False,
    }


AUTH_TYPES = "bearer, oauth, client_credentials, token_exchange, identity_assertion, workload"
STDIO: dict[str, Any] = {"command": "npx"}
HTTP: dict[str, Any] = {"url": "https://x.test"}
WRONG: list[tuple[object, str | None, str]] = [
    ({"comand": "npx"}, "comand", "unknown key; did you mean 'command'?"),
    ({**STDIO, 5: 1}, "5", "unknown key"),
    (
        {"type": "htp", **HTTP},
        "type",
        "unknown transport 'htp'; allowed: stdio, streamable-http (http, websocket), sse",
    ),
    (
        {"transport": 1, **STDIO},
        "transport",
        "unknown transport 1; allowed: stdio, streamable-http (http, websocket), sse",
    ),
    (
        {"transport": "memory", **STDIO},
        "transport",
        "unknown transport 'memory'; allowed: stdio, streamable-http (http, websocket), sse",
    ),
    (
        {"type": "http", "transport": "stdio", **HTTP},
        "transport",
        "type and transport conflict; keep one",
    ),
    ({**STDIO, **HTTP}, "url", "command and url are mutually exclusive; keep one"),
    ({}, None, "has neither command nor url; set command (stdio) or url (streamable-http, sse)"),
    (
        {"transport": "sse"},
        None,
        "has neither command nor url; set command (stdio) or url (streamable-http, sse)",
    ),
    ({"type": "stdio", **HTTP}, "type", "transport 'stdio' needs command, not url"),
    ({"transport": "sse", **STDIO}, "transport", "transport 'sse' needs url, not command"),
    ({"serverUrl": "ftp://s3cret"}, "serverUrl", "expected a URL that starts with http:// or https://"),
    ("s3cret words", "url", "expected a URL that starts with http:// or https://"),
    ({"url": 5}, "url", "expected a string; put it in quotes"),
    ({"server": "s3cret"}, "server", "expected an MCP server object; a file cannot contain one"),
    (None, None, "expected a mapping with command or url, or a URL"),
    (5, None, "expected a mapping with command or url, or a URL"),
    (True, None, "expected a mapping with command or url, or a URL"),
    ([STDIO], None, "expected a mapping with command or url, or a URL"),
    (date(2026, 1, 1), None, "expected a mapping with command or url, or a URL"),
    ({"connection": "s3cret"}, "connection", "expected a mapping"),
    ({"connection": STDIO, **STDIO}, "command", "is set in connection and beside it; keep one"),
    ({"command": ["npx", 5]}, "command", "expected a list of strings"),
    (
        {"command": []},
        None,
        "has neither command nor url; set command (stdio) or url (streamable-http, sse)",
    ),
    ({**STDIO, "args": "s3cret"}, "args", "expected a list of strings"),
    ({**STDIO, "args": ["s3cret", 5]}, "args[1]", "expected a string; put it in quotes"),
    ({**STDIO, "env": {"PORT": 5}}, "env.PORT", "expected a string; put it in quotes"),
    ({**STDIO, "env": ["A=s3cret"]}, "env", "expected a mapping of names to strings"),
    ({**STDIO, "env": {"A\nB": 5}}, r"'env.A\nB'", "expected a string; put it in quotes"),
    ({**HTTP, "headers": {"X": None}}, "headers.X", "expected a string; put it in quotes"),
    ({"url": "https://℀.test/sse"}, "url", "it is not a valid URL"),
    ({**STDIO, "enabled": "no"}, "enabled", "expected true or false"),
    ({**STDIO, "disabled": 1}, "disabled", "expected true or false"),
    ({**STDIO, "required": "no"}, "required", "expected true or false"),
    (
        {**STDIO, "include": "read"},
        "include",
        "expected a list of patterns, or of annotations such as {readOnlyHint: true}",
    ),
    ({**STDIO, "tools": {"a": {}}}, "tools", "expected a list of strings"),
    ({**STDIO, "includeTools": []}, "includeTools", "is empty; name the tools, or leave it out to allow all"),
    (
        {**STDIO, "inherit_env": "some"},
        "inherit_env",
        "expected 'safe', 'all', 'none' or a list of variable names",
    ),
    ({**HTTP, "verify": 1}, "verify", "expected true, false or the path of a CA bundle"),
    ({**STDIO, "era": "old"}, "era", "expected 'auto', 'modern' or 'legacy'"),
    ({**STDIO, "max_concurrency": 0}, "max_concurrency", "expected 1 or more"),
    ({**STDIO, "max_concurrency": "4"}, "max_concurrency", "expected a whole number"),
    ({**STDIO, "timeout": -1}, "timeout", "expected a number above 0"),
    ({**STDIO, "timeout": True}, "timeout", "expected a number above 0"),
    ({**STDIO, "timeouts": 5}, "timeouts", "expected a mapping"),
    ({**STDIO, "timeouts": {"call": "5"}}, "timeouts.call", "expected a number of seconds"),
    ({**STDIO, "timeouts": {"cal": 5}}, "timeouts.cal", "unknown key; did you mean 'call'?"),
    ({**HTTP, "auth": ""}, "auth.token", "expected a non-empty string"),
    (
        {**HTTP, "auth": 5},
        "auth",
        f"expected oauth, a token, or a mapping with a type: {AUTH_TYPES}",
    ),
    ({**HTTP, "auth": {"type": "basic", "token": "s3cret"}}, "auth.type", f"expected one of {AUTH_TYPES}"),
    ({**HTTP, "auth": {"type": "bearer"}}, "auth.token", "is missing; bearer needs token"),
    (
        {**HTTP, "auth": "s3cret", "headers": {"authorization": "x"}},
        "auth",
        "auth and an Authorization header are mutually exclusive; keep one",
    ),
]


@pytest.mark.parametrize(("entry", "key", "problem"), WRONG)
def test_a_wrong_entry_is_told_server_key_and_what_is_expected(
    entry: object, key: str | None, problem: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        one(entry)

    error = caught.value
    assert isinstance(error, ValueError)
    assert (error.server, error.key, error.problem) == ("a", key, problem)
    assert "\n" not in str(error)
    assert "s3cret" not in str(error)


@pytest.mark.parametrize(
    "text", ["${", "${}", "${A", "x${A B}", "${1}", "${A:-${B}}", "${file:}", "${cmd:}", "${cmd:a 'b}"]
)
def test_a_malformed_reference_is_found_when_the_config_is_read(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        one({"command": "x", "env": {"T": f"s3cret{text}"}})

    assert (caught.value.server, caught.value.key) == ("a", "env.T")
    assert "s3cret" not in str(caught.value)


def test_an_error_in_a_file_names_file_server_and_key(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("servers:\n  files:\n    comand: npx\n")

    with pytest.raises(ConfigError) as caught:
        load_config(path)

    assert str(caught.value) == (f"{path}: server 'files': comand: unknown key; did you mean 'command'?")


@pytest.mark.parametrize(
    ("source", "alias", "expected"),
    [
        ("https://x.test/mcp", None, "mcp"),
        ({"command": "x"}, None, "mcp"),
        ({"command": "x", "name": "n"}, None, "n"),
        ({"command": "x", "alias": "l"}, None, "l"),
        ({"serverName": "s", "connection": {"command": "x"}}, None, "s"),
        ({"command": "x", "name": "n"}, "given", "given"),
        ({"mcpServers": {"only": {"command": "x"}}}, None, "only"),
        ({"mcpServers": {"only": {"command": "x"}}}, "given", "given"),
        (ServerConfig(alias="old", transport="stdio", command="x"), None, "old"),
        (ServerConfig(alias="old", transport="stdio", command="x"), "new", "new"),
    ],
)
def test_one_server_is_loaded_from_a_url_a_mapping_or_a_config(
    source: object, alias: str | None, expected: str
) -> None:
    assert load_server(source, alias=alias).alias == expected


def test_one_server_is_loaded_from_an_object() -> None:
    server = object()

    assert load_server(server) == ServerConfig(alias="mcp", transport="memory", server=server)


@pytest.mark.parametrize(
    "source", [None, 5, [], Path("x"), b"x", "npx", {}, {"mcpServers": {}}, {"name": 5, "command": "x"}]
)
def test_what_is_no_server_is_a_config_error(source: object) -> None:
    with pytest.raises(ConfigError) as caught:
        load_server(source)

    assert "\n" not in str(caught.value)


def test_records_made_by_hand_raise_our_error_and_not_that_of_pydantic() -> None:
    makers: list[tuple[Any, dict[str, Any]]] = [
        (ServerConfig, {"alias": "a", "transport": "stdio", "command": 5}),
        (ServerConfig, {"alias": "", "transport": "stdio", "command": "x"}),
        (ServerConfig, {"alias": "a", "transport": "stdio"}),
        (ServerConfig, {"alias": "a", "transport": "stdio", "command": "x", "nonsense": 1}),
        (ServerConfig, {}),
        (Timeouts, {"call": -1}),
        (BearerAuth, {"type": "bearer", "token": ""}),
        (BusConfig, {"naming": "x"}),
        (BusConfig, {"servers": {"a": 5}}),
    ]
    for make, values in makers:
        with pytest.raises(ConfigError) as caught:
            make(**values)
        assert isinstance(caught.value, ToolbusError)
        assert caught.value.__context__ is None
