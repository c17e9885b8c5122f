"""Keys that were renamed: the old name works like the new one, and a warning says the new one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inside.config import ConfigModel
from tests.properties import modest
from toolbus.config import BusConfig, ServerConfig, load_config
from toolbus.config.schema import config_schema
from toolbus.errors import ConfigError

NPX = {"command": "npx"}
VALUES = st.one_of(st.none(), st.booleans(), st.integers(-2, 9), st.floats(), st.text(max_size=3))
Pair = dict[str, Any]
PLACES: dict[str, tuple[str, Callable[[Pair], Pair]]] = {
    "trust": ("trust_annotations", lambda pair: {"servers": {"a": {**NPX, **pair}}}),
    "recover": ("reconnect", lambda pair: {"servers": {"a": {**NPX, "timeouts": pair}}}),
    "longest": ("max", lambda pair: {"servers": {"a": NPX}, "timeouts": pair}),
}
"""Each old name with today's, and a config that has such a key."""


def outcome(document: dict[str, Any]) -> object:
    """The model, or the message."""
    try:
        return load_config(document).model_dump()
    except ConfigError as error:
        return str(error)


def every_model(base: type[ConfigModel] = ConfigModel) -> list[type[ConfigModel]]:
    return [one for sub in base.__subclasses__() for one in (sub, *every_model(sub))]


def test_every_old_name_is_tested_and_stands_for_a_field() -> None:
    found = {old: new for one in every_model() for old, new in vars(one).get("_renamed", {}).items()}
    assert found == {old: new for old, (new, _) in PLACES.items()}
    for one in every_model():
        renamed = vars(one).get("_renamed", {})
        assert set(renamed.values()) <= one.model_fields.keys()
        assert not renamed.keys() & one.model_fields.keys()


@pytest.mark.parametrize("old", PLACES)
@modest
@given(value=VALUES, other=VALUES)
def test_the_old_name_and_the_new_one_give_the_same_config_or_message(
    old: str, value: object, other: object
) -> None:
    new, placed = PLACES[old]
    assert repr(outcome(placed({old: value}))) == repr(outcome(placed({new: value})))
    if value is not None and other is not None:
        assert f"is the old name of {new}, which is also set" in str(
            outcome(placed({old: value, new: other}))
        )


@pytest.mark.parametrize("old", PLACES)
def test_a_warning_says_the_new_name_and_not_the_value(old: str) -> None:
    new, placed = PLACES[old]
    (warning,) = load_config(placed({old: True if old == "trust" else 4.5})).servers["a"].warnings
    key = "" if old == "trust" else "timeouts."
    assert warning == f"{key}{old} is now {key}{new}"


def test_old_names_of_a_server_and_of_all_servers_make_one_warning() -> None:
    document = {"servers": {"a": {**NPX, "timeouts": {"recover": 2}}}, "timeouts": {"recover": 3, "call": 9}}
    (server,) = load_config(document).servers.values()
    assert (server.timeouts.reconnect, server.timeouts.call) == (2, 9)
    assert server.warnings == ("timeouts.recover is now timeouts.reconnect",)


def test_models_in_code_take_the_old_names_too() -> None:
    old: dict[str, Any] = {"trust": True, "timeouts": {"recover": 1}}
    new: dict[str, Any] = {"trust_annotations": True, "timeouts": {"reconnect": 1}}
    target: dict[str, Any] = {"alias": "a", "transport": "stdio", "command": "x"}
    assert ServerConfig(**target, **old) == ServerConfig(**target, **new)
    longest: Pair = {"timeouts": {"longest": 3}}
    assert BusConfig(**longest).timeouts.max == 3


def test_the_schema_and_the_reference_show_the_new_names_only() -> None:
    defined: dict[str, Any] = config_schema()["$defs"]
    entry: Pair = defined["Entry"]["properties"]
    limits: Pair = defined["Timeouts"]["properties"]
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
    for old, (new, _) in PLACES.items():
        assert new in {**entry, **limits}
        assert old not in {**entry, **limits}
        assert f"| `{old}` |" not in page
