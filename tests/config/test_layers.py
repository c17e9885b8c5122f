"""The layers of a config: the user's own, the config, the local file beside it; and its profiles."""

import asyncio
import json
import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inside.config import (
    FREE,
    KEPT,
    LAUNCH,
    NARROWED,
    NOT_INHERITED,
    SETTINGS,
    USERS_WINS,
    Secrets,
    container,
    layer_files,
    overlaid,
    resolved,
)
from tests.inside.config import Location as Place
from tests.properties import modest
from toolbus import ConfigError, SyncToolbus, Toolbus
from toolbus.config import BusConfig, ServerConfig, load_config, usable_config

NOTES = {"command": "python", "args": ["-m", "toolbus.demo.notes"]}


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's own config; the current folder is another one."""
    folder = tmp_path / "config" / "toolbus"
    folder.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("TOOLBUS_CONFIG", raising=False)
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return folder


def written(path: Path, document: Mapping[str, Any]) -> Path:
    path.write_text(json.dumps(document))
    return path


def notes(folder: Path, name: str) -> dict[str, Any]:
    return {**NOTES, "args": [*NOTES["args"], "--db", str(folder / f"{name}.db")]}


def test_every_field_and_setting_has_a_place_in_the_layers() -> None:
    """A new one fails here until somebody has decided whether it decides where a secret goes."""
    fields = {name for name, field in ServerConfig.model_fields.items() if not field.exclude} - {"alias"}
    assert fields == LAUNCH | FREE | NARROWED | KEPT
    assert len(fields) == sum(map(len, (LAUNCH, FREE, NARROWED, KEPT)))
    assert set(SETTINGS) >= NOT_INHERITED | USERS_WINS


_names = st.sampled_from(["a", "b", "c"])
_texts = st.text(string.ascii_letters, min_size=1, max_size=6)
_tuning = st.fixed_dictionaries(
    {},
    optional={
        "timeouts": st.dictionaries(st.sampled_from(["call", "list"]), st.integers(1, 9), min_size=1),
        "exclude": st.lists(_texts, max_size=2),
        "lazy": st.booleans(),
        "enabled": st.booleans(),
    },
)


@st.composite
def _servers(draw: st.DrawFn, mark: str) -> dict[str, Any]:
    """Complete entries, whose values tell the layer and the server."""
    found: dict[str, Any] = {}
    for alias in draw(st.lists(_names, unique=True)):
        place = f"{mark}-{alias}"
        target = draw(
            st.sampled_from(
                [
                    {"url": f"https://{place}.example/mcp", "headers": {"X-Key": f"secret-{place}"}},
                    {
                        "url": f"https://{place}.example/mcp",
                        "auth": {"type": "bearer", "token": f"secret-{place}"},
                    },
                    {"command": f"cmd-{place}", "env": {"TOKEN": f"secret-{place}"}},
                ]
            )
        )
        found[alias] = {**target, **draw(_tuning)}
    return found


@st.composite
def _changes(draw: st.DrawFn, mark: str) -> dict[str, Any]:
    """Entries of a layer above: complete ones, tuning ones, removals, and parts of a target."""
    parts = st.sampled_from(
        [
            None,
            {"url": f"https://{mark}.example/mcp"},
            {"command": f"cmd-{mark}"},
            {"headers": {"X-Other": f"secret-{mark}"}},
            {"env": {"OTHER": f"secret-{mark}"}},
            {"verify": False},
            f"https://{mark}.example/short",
        ]
    )
    changes = draw(st.dictionaries(_names, parts | _tuning))
    return {**draw(_servers(mark)), **changes}


@modest
@given(_servers("one"))
def test_one_layer_is_the_config_itself(servers: dict[str, Any]) -> None:
    """Neither an empty local file nor a local file without servers changes anything."""
    document = {"servers": servers}
    found = container(document, Place())
    empty = container({"servers": {}}, Place())
    assert overlaid(found, empty) == found
    assert dict(overlaid(empty, found).entries) == dict(found.entries)


def _all(server: ServerConfig) -> str:
    return json.dumps(server.model_dump(mode="json", exclude={"alias"}), default=str)


@modest
@given(_servers("one"), _changes("two"), _changes("three"))
def test_no_secret_of_a_layer_is_in_an_entry_whose_target_another_layer_sets(
    one: dict[str, Any], two: dict[str, Any], three: dict[str, Any]
) -> None:
    """For the user's own config, the project and the local file."""
    documents = {"one": one, "two": two, "three": three}
    folder = Path.cwd()
    user = folder.parent / "config" / "toolbus" / "toolbus.json"
    written(user, {"servers": one})
    written(folder / "toolbus.yaml", {"extends": "user", "servers": two})
    written(folder / "toolbus.local.yaml", {"servers": three})
    try:
        config = usable_config(folder / "toolbus.yaml")
    except ConfigError:  # every server is invalid
        return
    for alias, server in config.servers.items():
        shown = _all(server)
        marks = [mark for mark in documents if f"{mark}-{alias}" in shown or f"//{mark}." in shown]
        target = [mark for mark in documents if f"//{mark}" in shown or f"cmd-{mark}" in shown]
        secrets = [mark for mark in documents if f"secret-{mark}" in shown]
        assert len(target) <= 1
        assert len(marks) <= 1
        assert set(secrets) <= set(target)


def test_later_files_win_field_by_field_and_null_removes(own: Path) -> None:
    web = {"url": "https://a.example/mcp", "headers": {"A": "1"}, "timeouts": {"call": 5, "list": 6}}
    written(own / "toolbus.json", {"servers": {"mine": notes(own, "1")}, "naming": "{server}_{tool}"})
    written(Path("toolbus.json"), {"extends": "user", "servers": {"web": web, "old": NOTES}, "mark": True})
    written(
        Path("toolbus.local.yaml"),
        {"servers": {"web": {"timeouts": {"call": 9}}, "old": None, "local": NOTES}, "mark": None},
    )
    config = load_config("toolbus.json")
    assert list(config.servers) == ["mine", "web", "local"]
    server = config.servers["web"]
    assert (server.timeouts.call, server.timeouts.list, server.headers) == (9, 6, {"A": "1"})
    assert (config.mark, config.naming, config.disabled) == (False, "{server}_{tool}", ())
    assert config.file_of("local") == "toolbus.local.yaml"
    assert config.file_of("web") == "toolbus.json"
    assert config.file_of("mine") == str(own / "toolbus.json")


def test_a_server_of_the_user_is_removed_with_null_or_disabled(own: Path) -> None:
    written(own / "toolbus.json", {"servers": {"a": NOTES, "b": NOTES, "c": NOTES}})
    written(Path("toolbus.json"), {"extends": "user", "servers": {"a": None, "b": {"enabled": False}}})
    config = load_config("toolbus.json")
    assert (list(config.servers), config.disabled) == (["c"], ("b",))


def test_without_layers_nothing_is_read_of_the_user(own: Path) -> None:
    (own / "toolbus.json").write_text("not a config")
    written(Path("toolbus.json"), {"servers": {"a": NOTES}})
    assert list(load_config("toolbus.json").servers) == ["a"]
    Path("toolbus.local.yaml").write_text("servers: {b: {command: b}}")
    assert list(load_config({"servers": {"a": NOTES}}).servers) == ["a"]


def test_a_mapping_is_layered_if_it_says_so(own: Path) -> None:
    written(own / "toolbus.json", {"servers": {"mine": NOTES}})
    assert list(load_config({"extends": "user", "servers": {"a": NOTES}}).servers) == ["mine", "a"]
    assert list(load_config({"extends": "user"}).servers) == ["mine"]


def test_a_team_may_extend_a_config_that_a_member_does_not_have() -> None:
    assert list(load_config({"extends": "user", "servers": {"a": NOTES}}).servers) == ["a"]


def test_messages_name_the_file_and_line_of_the_layer_with_the_mistake(own: Path) -> None:
    (own / "toolbus.yaml").write_text("servers:\n  mine:\n    command: a\n    lazy: 1\n")
    Path("toolbus.yaml").write_text("extends: user\nservers:\n  a:\n    command: a\n    args: 1\n")
    Path("toolbus.local.yaml").write_text("servers:\n  a:\n    # mine\n    lazy: maybe\n")
    with pytest.raises(ConfigError) as caught:
        load_config("toolbus.yaml")
    places = [(error.file, error.line, error.server, error.key) for error in caught.value.mistakes]
    assert places == [
        (str(own / "toolbus.yaml"), None, "mine", "lazy"),
        ("toolbus.yaml", 5, "a", "args"),
        ("toolbus.local.yaml", 4, "a", "lazy"),
    ]
    assert "toolbus.local.yaml:4" in str(caught.value)


def test_paths_and_references_are_those_of_the_file_they_are_in(own: Path) -> None:
    entry = {"command": "a", "cwd": "work", "args": ["${file:name.txt}", "${NAME}"], "verify": True}
    for folder in (own, Path.cwd()):
        (folder / "name.txt").write_text(f"file of {folder.name}")
        (folder / ".env").write_text(f"NAME=name of {folder.name}")
    written(own / "toolbus.json", {"servers": {"mine": entry}})
    written(Path("toolbus.json"), {"extends": "user", "servers": {"theirs": entry}})
    config = load_config("toolbus.json")
    secrets = Secrets(None, config.folder)
    for alias, folder in {"mine": own, "theirs": Path.cwd()}.items():
        found = asyncio.run(resolved(config.servers[alias], secrets))
        assert found.cwd == str(folder / "work")
        assert found.args == (f"file of {folder.name}", f"name of {folder.name}")


def test_every_layer_is_followed(own: Path) -> None:
    """Also one that does not exist yet."""
    mine = written(own / "toolbus.json", {"servers": {}})
    config = load_config(written(Path("toolbus.json"), {"extends": "user"}))
    local = "toolbus.local.yaml"
    assert layer_files(config) == [Path("toolbus.json"), Path(local), mine, own / local]


PROFILES = {
    "servers": {"notes": NOTES, "other": {"command": "never", "required": True}},
    "profiles": {
        "writing": {"servers": ["notes"], "include": ["notes_s*", "notes/add"], "exclude": ["notes_add"]},
        "careful": {"servers": ["notes"], "policy": [{"tools": "*/add", "do": "deny"}]},
    },
}


def names(view: Any) -> list[str]:
    return [tool.name for tool in view.catalog]


def profiled(tmp_path: Path) -> dict[str, Any]:
    return {**PROFILES, "servers": {**PROFILES["servers"], "notes": notes(tmp_path, "n")}}


def test_a_profile_starts_its_servers_only_and_shows_its_tools_only(tmp_path: Path) -> None:
    with SyncToolbus(profiled(tmp_path), profile="writing") as bus:
        assert list(bus.servers) == ["notes"]
        assert names(bus) == ["notes_search"]
        assert names(bus.as_user("ann")) == ["notes_search"]
        assert names(bus.view(include="*")) == ["notes_search"]


def test_a_profile_can_only_narrow(tmp_path: Path) -> None:
    async def work() -> None:
        async with Toolbus({**profiled(tmp_path), "exclude": ["*/forget"]}, profile="careful") as bus:
            assert names(bus) == ["notes_open_archive", "notes_search"]
            await bus.reload(
                {
                    **profiled(tmp_path),
                    "profiles": {"careful": {"servers": ["notes"], "include": ["*/search"]}},
                }
            )
            assert names(bus) == ["notes_search"]
            with pytest.raises(ConfigError, match="no profile is named 'careful'"):
                await bus.reload({"servers": {"notes": notes(tmp_path, "n")}})
            assert names(bus) == ["notes_search"]

    asyncio.run(work())


def test_an_unknown_profile_is_named_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="no profile is named 'writng'; did you mean 'writing'"):
        Toolbus(PROFILES, profile="writng")
    with pytest.raises(ConfigError, match="profiles: writing, careful"):
        Toolbus(PROFILES, profile="x")
    with pytest.raises(ConfigError, match=r"profiles\.a\.servers: no server has the alias 'note'"):
        load_config({"servers": {"notes": NOTES}, "profiles": {"a": {"servers": ["note"]}}})
    with pytest.raises(ConfigError, match="is also a view"):
        load_config(
            {"servers": {}, "profiles": {"a": {}}, "serve": {"views": {"a": {}}, "default_view": "a"}}
        )


def test_profiles_are_merged_and_those_of_the_user_stay_as_narrow(own: Path) -> None:
    written(own / "toolbus.json", PROFILES)
    theirs = {"writing": {"servers": ["notes", "other", "more"], "exclude": ["*/x"]}, "new": {}}
    document = {"extends": "user", "servers": {"more": NOTES}, "profiles": theirs}
    config = load_config(document)
    assert list(config.profiles) == ["writing", "careful", "new"]
    writing = config.profiles["writing"]
    assert (writing.servers, writing.exclude) == (("notes",), ("notes_add", "*/x"))
    with pytest.raises(ConfigError, match="is set by this profile in your own config"):
        load_config({"extends": "user", "profiles": {"writing": {"include": ["*"]}}})


def test_a_profile_is_a_view_of_the_gateway() -> None:
    config: BusConfig = load_config({**PROFILES, "serve": {"views": {"all": {}}, "default_view": "all"}})
    assert list(config.gateway.views) == ["writing", "careful", "all"]
    assert config.gateway.views["writing"].servers == ("notes",)
    assert list(load_config(PROFILES).gateway.views) == ["default", "writing", "careful"]
    scoped = {"oauth": {"issuer": "https://a.example", "audience": "x", "scopes": {"w": "writing"}}}
    assert load_config({**PROFILES, "serve": {"auth": scoped}}).serve is not None
