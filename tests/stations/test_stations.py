"""Stations that a config names: what kind each is, how it is made, and what its failures mean."""

import asyncio
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.stations import samples
from tests.stations.places import in_memory, modules, texts_of, written
from toolbus import CallDenied, ConfigError, HookFailed, Toolbus
from toolbus.config import usable_config

pytestmark = pytest.mark.anyio
HERE = "tests.stations.samples"


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:  # pyright: ignore[reportUnusedFunction]  # pytest uses it
    samples.SEEN.clear()


def with_hooks(*hooks: Any) -> Toolbus:
    """A bus with these stations of an installed package."""
    return Toolbus({"servers": in_memory(), "hooks": list(map(whole, hooks))})


def whole(entry: dict[str, Any] | str) -> dict[str, Any] | str:
    """An entry with the name of this module."""
    return f"{HERE}:{entry}" if isinstance(entry, str) else {**entry, "use": f"{HERE}:{entry['use']}"}


def place_of(code: str) -> str:
    """The file and line of a sample."""
    lines = Path(samples.__file__).read_text().splitlines()
    return f"{samples.__file__}:{next(n for n, line in enumerate(lines, 1) if code in line)}"


async def ignored(progress: float, total: float | None, message: str | None) -> None:
    """Somebody follows the progress of a call."""


async def test_an_observer_follows_every_operation_and_is_closed_with_the_bus() -> None:
    async with with_hooks({"use": "Follows", "deep": [1, {"x": True}]}) as bus:
        await bus.call("own/steps", {"count": 1}, on_progress=ignored)
        await bus.as_user("ann").call("own/echo", {"text": "hi"})
        with pytest.raises(Exception, match="no tool"):
            await bus.call("own/nothing", {})
    assert samples.SEEN[0] == ("made", {"deep": [1, {"x": True}]})
    assert ("start", "own_steps", "") in samples.SEEN
    assert ("progress", 1.0) in samples.SEEN
    assert ("start", "own_echo", "ann") in samples.SEEN
    assert ("end", "own_echo", None) in samples.SEEN
    assert samples.SEEN[-2:] == [("end", "own/nothing", "unknown_tool"), "closed"]


async def test_hooks_run_in_order_and_the_first_is_the_outermost() -> None:
    async with with_hooks(
        {"use": "Stamps", "mark": "outer"}, "ready", {"use": "made", "kind": "hook"}
    ) as bus:
        assert await texts_of(bus) == ["hi", "made", "ready", "outer"]
    # A station that is an object of its module belongs to the module.
    assert samples.SEEN == ["closed outer", "closed made"]


async def test_a_guard_refuses_and_its_state_is_that_of_the_bus() -> None:
    async with with_hooks({"use": "Most", "calls": 2}) as bus:
        await bus.call("own/echo", {"text": "1"})
        await bus.as_user("ann").call("own/echo", {"text": "2"})
        with pytest.raises(CallDenied, match="no calls are left"):
            await bus.call("own/echo", {"text": "3"})


async def test_a_guard_that_raises_refuses_and_is_named() -> None:
    async with with_hooks("stumbles") as bus:
        with pytest.raises(CallDenied) as refused:
            await bus.call("own/echo", {"text": "1"})
    raised = f"tools/call of 'own_echo' was refused: the guard '{HERE}:stumbles' raised ZeroDivisionError"
    assert str(refused.value) == f"{raised} ({place_of('raise ZeroDivisionError')})"
    assert refused.value.public == raised


@pytest.mark.parametrize(
    ("hook", "problem"),
    [("breaks", "raised KeyError: 'user' ({place})"), ("answers_text", "returned str, not a ToolResult")],
)
async def test_a_hook_that_fails_fails_the_call_with_its_name(hook: str, problem: str) -> None:
    async with with_hooks("Follows", hook) as bus:
        with pytest.raises(HookFailed) as failed:
            await bus.call("own/echo", {"text": "1"})
        place = place_of('raise KeyError("user")')
        failure = f"own_echo failed: the hook '{HERE}:{hook}' {problem.format(place=place)}"
        assert str(failed.value) == failure
        assert failed.value.public == failure.partition(": 'user'")[0]
        [tool] = [one for one in bus.tools() if one.name == "own_echo"]
        assert (await tool.execute(text="x")).text == f"MCP error: {failed.value}"
    assert ("end", "own_echo", "refused") in samples.SEEN


async def test_errors_of_the_tool_and_of_other_stations_pass_a_hook_unchanged() -> None:
    async with with_hooks("Stamps", "Most") as bus:
        await bus.call("own/echo", {"text": "1"})
        with pytest.raises(CallDenied, match="no calls are left"):
            await bus.call("own/echo", {"text": "2"})


async def test_an_observer_that_raises_fails_no_call_and_is_logged_once_for_each_kind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with with_hooks("Fails", "Follows") as bus:
        for _ in range(3):
            await bus.call("own/steps", {"count": 2}, on_progress=ignored)
    assert samples.SEEN.count(("end", "own_steps", None)) == 3
    place = place_of('raise ValueError("in the middle")')
    lines = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
    raised = f"the observer '{HERE}:Fails' raised ValueError: in the middle ({place})"
    assert lines == [f"{raised}; this kind is not logged again"]


async def test_references_in_options_are_filled_in_and_secrets_stay_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("QUOTA_TOKEN", "hunter2hunter2")
    config = {"use": "Follows", "token": "${QUOTA_TOKEN}", "mode": "${MODE:-strict}", "times": 3}
    bus = with_hooks(config)
    async with bus:
        assert samples.SEEN == [("made", {"token": "hunter2hunter2", "mode": "strict", "times": 3})]
    assert "hunter2" not in repr(bus.config) + bus.config.hooks[0].model_dump_json()
    assert bus.config.hooks[0].shown_options["token"] == "${QUOTA_TOKEN}"
    literal = with_hooks({"use": "Follows", "token": "hunter2hunter2"}).config
    assert literal.hooks[0].shown_options == {"token": "***"}


async def test_a_missing_secret_is_named_with_its_place(tmp_path: Path) -> None:
    file = written(tmp_path, [{"use": f"{HERE}:Follows", "token": "${NOT_THERE_AT_ALL}"}])
    with pytest.raises(
        ConfigError, match=r"toolbus\.yaml:\d+: hooks\[0\]\.token: secret 'NOT_THERE_AT_ALL' is not set"
    ):
        await Toolbus(file).start()


WRONG: list[tuple[Any, str]] = [
    ("number", "is no station: it needs start"),
    ({"use": "made", "kind": "text"}, "a str is no station: it needs start"),
    ("Both", "may be observer or guard: set its attribute station"),
    ("SaysNonsense", "its attribute station must be one of observer, hook, guard"),
    ("plain", "cannot be made with these options: TypeError"),
    ("Nobody", "has no 'Nobody'"),
    ("Stampss", "did you mean 'Stamps'?"),
    ({"use": "ready", "mark": "x"}, "is a station itself and takes no options"),
    ({"use": "Most", "call": 3}, "cannot be made with these options: TypeError"),
]


@pytest.mark.parametrize(("entry", "problem"), WRONG, ids=[str(one[0]) for one in WRONG])
async def test_a_wrong_object_is_an_error_with_file_line_and_what_is_missing(
    entry: Any, problem: str, tmp_path: Path
) -> None:
    bus = Toolbus(written(tmp_path, [f"{HERE}:Stamps", whole(entry)]))
    with pytest.raises(ConfigError) as error:
        await bus.start()
    assert str(error.value).startswith(f"{tmp_path / 'toolbus.yaml'}:")
    assert error.value.line is not None
    assert "hooks[1].use: " in str(error.value)
    assert problem in str(error.value)
    assert samples.SEEN == ["closed seen"]  # what was made before does not stay open


async def test_a_station_may_say_what_it_is() -> None:
    async with with_hooks("SaysGuard") as bus:
        await bus.call("own/echo", {"text": "x"})
    assert samples.SEEN == ["guarded"]


@pytest.mark.parametrize(
    "hooks",
    ["a:B", [3], [{"per_day": 3}], [{"use": "a b"}], [{"use": "a:B", "x y": 1}], [{"use": "a:B", "x": "${"}]],
    ids=str,
)
def test_a_malformed_entry_is_found_before_anything_is_imported(hooks: Any, tmp_path: Path) -> None:
    file = written(tmp_path, [])
    file.write_text(file.read_text().replace("[]", json.dumps(hooks)))
    with pytest.raises(ConfigError, match=r"hooks"):
        usable_config(file)


async def test_files_beside_the_config_import_each_other_relatively(tmp_path: Path) -> None:
    modules(
        tmp_path,
        pack__mark="from .deep.word import WORD\nfrom tests.stations.samples import Stamps\n"
        "def make():\n    return Stamps(WORD)\n",
        pack__deep__word="WORD = 'packed'\n",
    )
    (tmp_path / "pack" / "__init__.py").touch()
    bus = Toolbus(written(tmp_path, ["pack.mark:make"]))
    async with bus:
        await bus.add_server("own", in_memory()["own"])
        assert await texts_of(bus) == ["hi", "packed"]


async def test_two_configs_with_a_module_of_the_same_name_never_mix(tmp_path: Path) -> None:
    source = "from tests.stations.samples import Stamps\nhook = Stamps('{}')\n"
    buses: Sequence[Toolbus] = []
    for name in ("one", "two"):
        modules(tmp_path / name, mark=source.format(name))
        buses = [*buses, Toolbus(written(tmp_path / name, ["mark:hook"]))]
    for bus, name in zip(buses, ("one", "two"), strict=True):
        async with bus:
            await bus.add_server("own", in_memory()["own"])
            assert await texts_of(bus) == ["hi", name]


async def test_a_module_beside_the_config_is_not_importable_for_others(tmp_path: Path) -> None:
    modules(tmp_path, gate="import stray\n", stray="")
    bus = Toolbus(written(tmp_path, ["gate:hook"]))
    with pytest.raises(ConfigError, match="needs the module 'stray', which is not there"):
        await bus.start()


async def test_calls_made_while_the_bus_starts_pass_the_stations(tmp_path: Path) -> None:
    bus = with_hooks({"use": "Most", "calls": 1})
    starting = asyncio.create_task(bus.start())
    await asyncio.sleep(0)  # it has begun, and has no servers yet
    results = await asyncio.gather(
        *(bus.call("own/echo", {"text": "x"}) for _ in range(3)), return_exceptions=True
    )
    await starting
    await bus.close()
    assert sum(isinstance(one, CallDenied) for one in results) == 2
