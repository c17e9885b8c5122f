"""Mistakes in a config: all are listed at once, and one wrong entry costs its own server only."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import plain
from toolbus import Toolbus, connect_mcp
from toolbus.config import ServerConfig, load_config, usable_config
from toolbus.errors import ConfigError
from toolbus.events import Event, Warned
from toolbus.extension import McpBridgeExtension

NPX: dict[str, Any] = {"command": "npx"}
WRONG = {
    "servers": {
        "files": {"comand": "npx", "env": {"PORT": 80, "HOST": 1}, "era": "old"},
        "good": NPX,
        "web": {"url": "ftp://x.test"},
    }
}
LISTED = (
    "5 mistakes: (1) server 'files': comand: unknown key; did you mean 'command'? "
    "(2) server 'files': env.PORT: expected a string; put it in quotes "
    "(3) server 'files': env.HOST: expected a string; put it in quotes "
    "(4) server 'files': era: expected 'auto', 'modern' or 'legacy' "
    "(5) server 'web': url: expected a URL that starts with http:// or https://"
)


def test_one_error_lists_all_mistakes_and_keeps_each(tmp_path: Path) -> None:
    file = tmp_path / "toolbus.json"
    file.write_text(json.dumps(WRONG))

    with pytest.raises(ConfigError) as caught:
        load_config(file)

    assert str(caught.value) == f"{file}: {LISTED}"
    assert [(one.file, one.server, one.key) for one in caught.value.mistakes] == [
        (str(file), "files", "comand"),
        (str(file), "files", "env.PORT"),
        (str(file), "files", "env.HOST"),
        (str(file), "files", "era"),
        (str(file), "web", "url"),
    ]


def test_mistakes_beside_the_servers_are_listed_with_those_of_servers() -> None:
    with pytest.raises(ConfigError) as caught:
        usable_config({**WRONG, "nameing": "auto", "timeouts": {"cal": 1}, "roots": 3})

    assert [(one.server, one.key) for one in caught.value.mistakes[:3]] == [
        (None, "nameing"),
        (None, "timeouts.cal"),
        (None, "roots"),
    ]
    assert len(caught.value.mistakes) == 8


def test_a_single_mistake_is_the_error_itself() -> None:
    with pytest.raises(ConfigError) as caught:
        load_config({"servers": {"a": {"comand": "x"}}})

    assert caught.value.mistakes == (caught.value,)


@pytest.mark.parametrize(
    "entry", [{"comand": "x"}, {"command": "x", "enabled": "no"}, {}, None, 5, {**NPX, "alias": "other"}]
)
def test_a_wrong_entry_costs_its_own_server_only(entry: Any) -> None:
    config = usable_config({"servers": {"good": NPX, "bad": entry}})

    assert config.servers["good"] == ServerConfig(alias="good", transport="stdio", command="npx")
    assert isinstance(config.servers["bad"].mistake, ConfigError)


def test_an_entry_of_a_list_without_a_name_costs_only_itself() -> None:
    config = usable_config([{"alias": "good", **NPX}, NPX, {"alias": "good", **NPX}])

    assert {alias: str(server.mistake) for alias, server in config.servers.items()} == {
        "good": "None",
        "servers[1]": "servers[1]: a server needs an alias: a non-empty string",
        "servers[2]": "servers: two servers have the alias 'good'; rename one",
    }


@pytest.mark.anyio
async def test_a_bus_runs_the_rest_and_reports_the_wrong_server(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "toolbus")
    async with Toolbus({"servers": {"good": plain(), "bad": {"comand": "npx"}}}) as bus:
        assert (await bus.call("good_echo", {"text": "tea"})).text == "tea"
        failed = bus.servers["bad"]
        error = bus.failures["bad"]

    assert (failed.state, failed.error) == ("failed", str(error))
    assert isinstance(error, ConfigError)
    assert (error.server, error.key) == ("bad", "comand")
    assert "server 'bad': comand: unknown key; did you mean 'command'?" in caplog.messages


@pytest.mark.anyio
async def test_a_wrong_server_that_is_required_stops_the_start() -> None:
    bus = Toolbus({"servers": {"good": plain(), "bad": {"comand": "npx", "required": True}}})

    with pytest.raises(ConfigError, match="comand: unknown key"):
        await bus.start()


@pytest.mark.anyio
async def test_a_reload_takes_the_rest_of_a_config_with_a_wrong_entry() -> None:
    async with Toolbus({"servers": {"a": plain()}}) as bus:
        await bus.reload({"servers": {"b": plain(), "a": {"comand": "x"}}})
        assert {alias: status.state for alias, status in bus.servers.items()} == {"b": "ready", "a": "failed"}
        with pytest.raises(ConfigError):
            await bus.reload({"servers": {"a": {"comand": "x"}}})
        assert bus.servers["b"].state == "ready"


def test_a_mistake_that_is_kept_holds_no_value_of_the_entry() -> None:
    entry = {"comand": "s3cret", "env": {"A": 5}, "auth": {"type": "bearer", "tken": "s3cret"}}
    mistake = usable_config({"servers": {"good": NPX, "bad": entry}}).servers["bad"].mistake

    assert mistake is not None
    assert len(mistake.mistakes) == 4
    assert all(one.__traceback__ is one.__context__ is None for one in (mistake, *mistake.mistakes))


@pytest.mark.parametrize("wrong", [{"comand": "x"}, 5, {}, None, "localhost:9/mcp"])
def test_a_wrong_entry_beside_a_right_one_without_a_container_costs_that_server_only(wrong: object) -> None:
    config = usable_config({"good": NPX, "bad": wrong, "timeouts": {"call": 9}})

    assert (config.servers["good"].mistake, config.servers["good"].timeouts.call) == (None, 9)
    assert config.servers["bad"].mistake is not None


def test_a_url_is_not_taken_for_the_path_of_a_config() -> None:
    with pytest.raises(ConfigError, match="expected a config, not a URL; name the server"):
        Toolbus("https://example.com/mcp?key=s3cret")


def test_a_config_whose_servers_are_all_wrong_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        Toolbus({"servers": {"a": {"comand": "x"}, "b": {"command": 5}}})

    assert [one.server for one in caught.value.mistakes] == ["a", "b"]


@pytest.mark.anyio
async def test_the_extension_and_a_single_connection_still_refuse_a_mistake() -> None:
    servers = [{"alias": "good", **NPX}, {"alias": "bad", "comand": "x"}, {"alias": "worse", "ulr": "x"}]
    with pytest.raises(ConfigError) as caught:
        await McpBridgeExtension({"config": {"servers": servers}}).initialize()
    assert [one.server for one in caught.value.mistakes] == ["bad", "worse"]

    with pytest.raises(ConfigError, match="comand: unknown key"):
        connect_mcp(comand="npx")


# Other hosts' files


def vs_code(folder: Path, **entry: Any) -> Path:
    file = folder / "mcp.json"
    file.write_text(json.dumps({"servers": {"a": {**NPX, **entry}}, "newKey": 1}))
    return file


@pytest.mark.parametrize("container", ["mcpServers", "mcp_servers"])
def test_an_unknown_key_in_a_file_of_another_host_is_only_a_warning(container: str) -> None:
    server = load_config({container: {"a": {**NPX, "commnd": "x", "zzz": 1}}}).servers["a"]

    assert server.command == "npx"
    assert server.warnings == (
        "unknown key 'commnd' is ignored; did you mean 'command'?",
        "unknown key 'zzz' is ignored",
    )


def test_a_file_of_vs_code_is_another_hosts(tmp_path: Path) -> None:
    assert load_config(vs_code(tmp_path, zzz=1)).servers["a"].warnings == ("unknown key 'zzz' is ignored",)


@pytest.mark.anyio
async def test_an_ignored_key_is_reported_once_the_bus_runs() -> None:
    heard: list[Event] = []
    config = {"mcpServers": {"a": {**plain(), "zzz": 1}}}
    async with Toolbus(config, on_event=heard.append) as bus:
        assert bus.servers["a"].state == "ready"

    warned = [event.message for event in heard if isinstance(event, Warned)]
    assert warned == ["unknown key 'zzz' is ignored"]


RESTRICTIONS = {
    "exlude": "exclude",
    "inclued": "include",
    "enable": "enabled",
    "disable": "disabled",
    "sandbx": "sandbox",
    "polcy": "policy",
    "lok": "lock",
    "truts": "trust",
    "trust_anotations": "trust_annotations",
    "Exclude": "exclude",
}


@pytest.mark.parametrize("container", ["servers", "mcpServers"])
@pytest.mark.parametrize("key", [*RESTRICTIONS, "exludeTools", "policy", "lock"])
def test_a_misspelled_restriction_is_an_error_in_every_dialect(container: str, key: str) -> None:
    config = usable_config({container: {"a": {**NPX, key: ["x"]}, "b": NPX}})

    assert config.servers["a"].mistake is not None
    assert config.servers["a"].mistake.key == key
    assert config.servers["b"].mistake is None


@pytest.mark.parametrize(("key", "meant"), [*RESTRICTIONS.items(), ("enabled_server", "enabled_servers")])
def test_a_misspelled_restriction_for_all_servers_is_an_error_in_every_dialect(key: str, meant: str) -> None:
    with pytest.raises(ConfigError) as caught:
        usable_config({"mcpServers": {"a": NPX}, key: ["x"]})
    assert (caught.value.key, caught.value.problem) == (
        key,
        f"unknown key, not ignored because it may be a misspelled restriction; did you mean {meant!r}?",
    )

    for document in ({"servers": {"a": NPX}, key: ["x"]}, {"config": {"servers": {"a": NPX}, key: ["x"]}}):
        with pytest.raises(ConfigError) as caught:
            usable_config(document)
        assert caught.value.key == key


def test_keys_that_hosts_really_have_are_left_alone() -> None:
    own = [
        "excludeTools",
        "enabledMcpjsonServers",
        "includeDirectories",
        "trustedFolders",
        "sandbox",
        "inputs",
    ]

    assert list(load_config({"mcpServers": {"a": NPX}, **{key: [] for key in own}}).servers) == ["a"]
