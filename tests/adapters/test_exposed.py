"""`expose` and `always`, as options of every adapter and of the agent."""

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any, cast

import pytest

from tests.adapters.environments import living_here
from tests.servers.everyday import everyday
from toolbus import Toolbus
from toolbus.adapters.provider_tools import field_of
from toolbus.adapters.tool_list import ToolList, bus_of, shown

pytestmark = pytest.mark.anyio


def _factories(name: str) -> dict[str, Callable[..., Any]]:
    """The functions of an adapter that take a bus."""
    members = vars(import_module(f"toolbus.adapters.{name}")).items()
    functions = {key: value for key, value in members if inspect.isfunction(value) and key[0] != "_"}
    return {
        key: value for key, value in functions.items() if "servers" in inspect.signature(value).parameters
    }


def _config() -> dict[str, Any]:
    return {"servers": {"a": {"server": everyday()}}}


@pytest.mark.parametrize("name", living_here())
async def test_every_adapter_takes_them(name: str) -> None:
    factories = {key: one for key, one in _factories(name).items() if one.__module__.endswith(name)}
    assert factories
    async with Toolbus(_config()) as bus:
        for key, one in factories.items():
            parameters = inspect.signature(one).parameters
            assert {"expose", "always"} <= parameters.keys()
            if "agent" in parameters:
                continue  # needs an agent, and passes them on as the others do
            made = one(bus, expose="search", always="a/add")
            if isinstance(made, ToolList):
                items = cast(ToolList[object], made)
                assert sum(field_of(item, "defer_loading") is not True for item in items) == 3, key
            with pytest.raises(TypeError, match="unexpected keyword argument 'exposes'"):
                one(bus, exposes="search")
            with pytest.raises(ValueError, match="expose must be one of"):
                one(bus, expose="some")
            with pytest.raises(ValueError, match="not for a list of tools"):
                one(bus.tools(), expose="search")


async def test_a_view_of_the_source_is_taken() -> None:
    async with Toolbus(_config()) as bus:
        assert shown(bus, None, None) is bus
        source = shown(bus, "search", None)
        assert [tool.name for tool in bus_of(source).tools()] == ["search_tools", "call_tool"]
        assert len(bus.tools()) == 16
