"""Every host's file is read as its users wrote it."""

import json
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp import StdioServerParameters
from pydantic import BaseModel, ConfigDict, HttpUrl, SecretStr

from toolbus.config import BearerAuth, BusConfig, ServerConfig, Timeouts, load_config, load_server
from toolbus.errors import ConfigError

NPX = {"command": "npx", "args": ["-y", "pkg"]}
WEB = {"url": "https://x.test/mcp"}
BOTH = {
    "files": ServerConfig(alias="files", transport="stdio", command="npx", args=("-y", "pkg")),
    "web": ServerConfig(alias="web", transport="streamable-http", url="https://x.test/mcp"),
}

DIALECTS: dict[str, Any] = {
    "ours": {"servers": {"files": NPX, "web": WEB}},
    "ours as a list": {"servers": [{"alias": "files", **NPX}, {"name": "web", **WEB}]},
    "ours with URLs": {"servers": {"files": NPX, "web": "https://x.test/mcp"}},
    "claude desktop": {"mcpServers": {"files": NPX, "web": WEB}, "globalShortcut": "Ctrl+Space"},
    "claude code": {
        "mcpServers": {
            "files": {"type": "stdio", **NPX, "env": {}},
            "web": {"type": "http", **WEB, "headersHelper": "/bin/h", "oauth": None},
        }
    },
    "cursor": {"mcpServers": {"files": {"type": "stdio", **NPX}, "web": {**WEB, "headers": {}}}},
    "windsurf": {
        "mcpServers": {"files": {**NPX, "disabled": False}, "web": {"serverUrl": "https://x.test/mcp"}}
    },
    "cline": {
        "mcpServers": {
            "files": {**NPX, "autoApprove": ["a"], "alwaysAllow": [], "transportType": "stdio"},
            "web": {**WEB, "type": "streamableHttp", "watchPaths": []},
        }
    },
    "gemini cli": {
        "mcp": {"allowed": ["files"]},
        "mcpServers": {
            "files": {**NPX, "trust": False, "description": "d"},
            "web": {"httpUrl": "https://x.test/mcp", "authProviderType": "dynamic_discovery"},
        },
    },
    "fastmcp": {
        "mcpServers": {
            "files": {**NPX, "transport": "stdio", "keep_alive": True, "icon": "i", "authentication": {}},
            "web": {**WEB, "transport": "http", "sse_read_timeout": 3},
        }
    },
    "vs code": {
        "inputs": [{"type": "promptString", "id": "k", "password": True}],
        "servers": {
            "files": {"type": "stdio", **NPX, "dev": {"watch": "*"}, "gallery": True, "version": "1"},
            "web": {"type": "http", **WEB},
        },
    },
    "vs code settings": {"editor.fontSize": 12, "mcp": {"inputs": [], "servers": {"files": NPX, "web": WEB}}},
    "squidbot": {
        "mcp_servers": {
            "files": {"transport": "stdio", **NPX, "env": None, "cwd": None, "url": ""},
            "web": {"transport": "http", "command": "", "args": [], **WEB},
        }
    },
    "squidbot below tools": {
        "tools": {"shell": True, "mcp_servers": {"files": NPX, "web": WEB}},
        "agent": {},
    },
    "axle": {
        "services": {
            "mcp": [
                {"name": "files", "transport": "stdio", **NPX},
                {"name": "web", "transport": "http", **WEB},
            ]
        }
    },
    "axle as a mapping": {"services": {"mcp": {"files": NPX, "web": WEB}}},
    "assistant4": {
        "id": "mcp",
        "enabled": True,
        "config": {
            "servers": [
                {"alias": "files", "transport": "stdio", **NPX},
                {"alias": "web", "transport": "streamable-http", **WEB},
            ]
        },
    },
    "aidk list": [
        {"serverName": "files", "transport": "stdio", "connection": NPX},
        {"serverName": "web", "transport": "websocket", "connection": WEB},
    ],
    "aidk mapping": {"mcpServers": {"files": NPX, "web": {"serverName": "web", "connection": WEB}}},
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_gives_the_same_servers(dialect: str) -> None:
    assert load_config(DIALECTS[dialect]) == BusConfig(servers=BOTH)


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if isinstance(DIALECTS[name], dict)])
def test_every_dialect_is_read_from_a_file_in_its_order(dialect: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(DIALECTS[dialect]))

    config = load_config(path)

    assert config == BusConfig(servers=BOTH, file=str(path), folder=tmp_path)
    assert list(config.servers) == ["files", "web"]


def test_one_aidk_config_is_a_bus_of_one_server() -> None:
    config = load_config(
        {
            "serverName": "api-mcp",
            "transport": "sse",
            "connection": {"url": "https://mcp.example.com/sse"},
            "auth": {"type": "bearer", "token": "your-api-token"},
        }
    )

    assert config.servers == {
        "api-mcp": ServerConfig(
            alias="api-mcp",
            transport="sse",
            url="https://mcp.example.com/sse",
            auth=BearerAuth(type="bearer", token="your-api-token"),
        )
    }


def test_a_server_object_stands_for_itself_in_a_mapping() -> None:
    server = object()

    assert load_config({"mcpServers": {"here": server}}).servers == {
        "here": ServerConfig(alias="here", transport="memory", server=server)
    }


class Settings(BaseModel):
    """A server in the settings of a program, as its design has it."""

    transport: Literal["stdio", "http"] = "stdio"
    command: str = ""
    args: list[str] = []
    env: dict[str, str] | None = None
    cwd: str | None = None
    url: str = ""


class Named(Settings):
    """The same in a list."""

    name: str


class Odd(BaseModel):
    """A server with values that no file could hold."""

    model_config = ConfigDict(extra="allow")

    url: HttpUrl
    headers: dict[str, SecretStr] = {}
    verify: Path | bool = True
    retries: int = 3


def test_code_may_leave_out_the_container() -> None:
    server = object()

    assert load_config({}).servers == {}
    assert load_config({"files": NPX, "web": "https://x.test/mcp"}).servers == BOTH
    assert load_config({"web": BOTH["web"], "here": server}).servers == {
        "web": BOTH["web"],
        "here": ServerConfig(alias="here", transport="memory", server=server),
    }


@pytest.mark.parametrize("document", [{"url": "https://x.test/mcp"}, {"web": "x.test"}, {"connection": WEB}])
def test_one_server_without_an_alias_is_not_a_config(document: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="no servers found"):
        load_config(document)


def test_models_of_pydantic_are_servers() -> None:
    files = Settings(command="npx", args=["-y", "pkg"])
    web = Settings(transport="http", url="https://x.test/mcp")

    assert load_config({"files": files, "web": web}).servers == BOTH
    assert load_config({"mcpServers": {"files": files, "web": web}}).servers == BOTH
    assert load_config([Named(name="files", command="npx", args=["-y", "pkg"])]).servers == {
        "files": BOTH["files"]
    }
    assert load_server(files, alias="files") == BOTH["files"]
    assert load_server(StdioServerParameters(command="npx", cwd=Path("/srv"))) == ServerConfig(
        alias="mcp", transport="stdio", command="npx", cwd="/srv"
    )


def test_the_values_of_a_model_are_taken_as_a_file_would_hold_them() -> None:
    odd = Odd(url=HttpUrl("https://x.test/mcp"), headers={"X-Key": SecretStr("abc")}, verify=Path("/ca.pem"))

    assert load_server(odd) == ServerConfig(
        alias="mcp",
        transport="streamable-http",
        url="https://x.test/mcp",
        headers={"X-Key": "abc"},
        verify="/ca.pem",
    )


def test_what_is_set_in_a_model_has_to_be_understood() -> None:
    with pytest.raises(ConfigError, match="unknown key") as caught:
        load_config({"web": Odd(url=HttpUrl("https://x.test/mcp"), retries=5)})
    assert (caught.value.server, caught.value.key) == ("web", "retries")


@pytest.mark.parametrize(
    "document",
    [
        {"mcpServers": {"files": NPX, "web": WEB}},
        {"servers": {"files": NPX, "web": WEB}},
        {"services": {"mcp": {"files": NPX, "web": WEB}}},
    ],
)
def test_our_settings_are_honoured_beside_every_container(document: dict[str, Any]) -> None:
    settings = {
        "naming": "mcp_{server}_{tool}",
        "timeouts": {"call": 9},
        "enabled_servers": ["web"],
        "tool_allowlist": {"web": ["get_*"]},
    }

    config = load_config({**document, **settings})

    assert (config.naming, config.timeouts) == ("mcp_{server}_{tool}", Timeouts(call=9))
    assert config.servers == {
        "web": ServerConfig(
            alias="web",
            transport="streamable-http",
            url="https://x.test/mcp",
            include=("get_*",),
            timeouts=Timeouts(call=9),
        )
    }


def test_the_settings_of_a_manifest_stand_beside_its_servers() -> None:
    servers = [{"alias": "files", **NPX}, {"alias": "web", **WEB}]
    config = load_config(
        {"config": {"servers": servers, "enabled_servers": ["files"], "tool_allowlist": {"files": ["read"]}}}
    )

    assert {alias: server.include for alias, server in config.servers.items()} == {"files": ("read",)}


NO_SERVERS = (
    "no servers found; expected 'servers: {NAME: {command: ...}}', or one of mcpServers, mcp.servers, "
    "mcp_servers, tools.mcp_servers, services.mcp, config.servers; did you mean 'servers'?"
)


@pytest.mark.parametrize(
    ("source", "key", "problem"),
    [
        (
            {"servers": {}, "mcpServers": {}},
            None,
            "more than one list of servers: 'servers' and 'mcpServers'; keep one",
        ),
        (
            {"server": {"a": NPX}},
            None,
            NO_SERVERS,
        ),
        ({"servers": {}, "nameing": "auto"}, "nameing", "unknown key; did you mean 'naming'?"),
        (
            {"servers": None},
            "servers",
            "expected a mapping of servers, or a list of servers with an alias or name",
        ),
        (
            {"mcpServers": 3},
            "mcpServers",
            "expected a mapping of servers, or a list of servers with an alias or name",
        ),
        ({"servers": [NPX]}, "servers[0]", "a server needs an alias: a non-empty string"),
        ({"servers": ["https://x.test"]}, "servers[0]", "a server needs an alias: a non-empty string"),
        ({"servers": {"": NPX}}, "servers", "a server needs an alias: a non-empty string"),
        ({"servers": {1: NPX}}, "servers", "a server needs an alias: a non-empty string"),
        (
            [{"alias": "a", **NPX}, {"name": "a", **WEB}],
            "servers",
            "two servers have the alias 'a'; rename one",
        ),
        (
            {"servers": {"a": {"alias": "b", **NPX}}},
            "servers.a.alias",
            "'a' has a different alias; keep one",
        ),
        (
            {"servers": {"alpha": NPX}, "enabled_servers": ["alpa"]},
            "enabled_servers",
            "no server has the alias 'alpa'; did you mean 'alpha'?",
        ),
        ({"servers": {}, "enabled_servers": "a"}, "enabled_servers", "expected a list of strings"),
        (
            {"servers": {"alpha": NPX}, "tool_allowlist": {"alpa": []}},
            "tool_allowlist",
            "no server has the alias 'alpa'; did you mean 'alpha'?",
        ),
        ({"servers": {}, "tool_allowlist": ["a"]}, "tool_allowlist", "expected a mapping"),
        ({"servers": {}, "timeouts": {"cal": 1}}, "timeouts.cal", "unknown key; did you mean 'call'?"),
        ({"servers": {}, "timeouts": {"call": 0}}, "timeouts.call", "expected a number above 0"),
        (
            {"servers": {}, "timeouts": {"call": float("inf")}},
            "timeouts.call",
            "expected a finite number of seconds",
        ),
        ({"servers": {}, "naming": 3}, "naming", "expected a string; put it in quotes"),
        (
            {"servers": {}, "naming": "{serve}_{tool}"},
            "naming",
            "unknown field {serve} in the template; known: {server}, {tool}; did you mean 'server'?",
        ),
        (
            {"servers": {}, "naming": "{server}"},
            "naming",
            "the template has no {tool}: all tools of a server would share one name",
        ),
        (
            {"servers": {}, "naming": "{tool"},
            "naming",
            "malformed template; write 'auto' or a text with {server}, {tool}",
        ),
        (None, None, "expected a path, a mapping or a list of servers, not NoneType"),
    ],
)
def test_a_document_that_makes_no_sense_is_told_what_and_where(
    source: Any, key: str | None, problem: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(source)

    assert (caught.value.server, caught.value.key, caught.value.problem) == (None, key, problem)
    assert "\n" not in str(caught.value)


def test_a_bus_config_is_returned_as_it_is() -> None:
    config = BusConfig(servers=BOTH)

    assert load_config(config) is config


def test_ready_server_configs_may_stand_in_a_mapping() -> None:
    assert load_config({"servers": BOTH}).servers == BOTH
