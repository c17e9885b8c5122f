"""Servers that do odd things: usable parts are kept, and the rest is reported."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.conftest import SERVERS, plain
from tests.patience import PATIENCE
from toolbus import ServerRejected, Toolbus
from toolbus.events import Event, Warned
from toolbus.records import Image, Text

pytestmark = pytest.mark.anyio


def warnings(events: list[Event]) -> list[tuple[str | None, str]]:
    return [(event.tool, event.message) for event in events if isinstance(event, Warned)]


Seen = Callable[..., Awaitable[tuple[Toolbus, list[Event]]]]


@pytest.fixture(params=["legacy", "modern"])
def seen(request: pytest.FixtureRequest) -> Seen:
    """A function that gives a bus with one plain server of either era, and everything it said."""
    era: str = request.param

    async def start(*behaviours: str, **more: Any) -> tuple[Toolbus, list[Event]]:
        events: list[Event] = []
        wanted = ("modern", *behaviours) if era == "modern" else behaviours
        bus = Toolbus({"servers": {"a": plain(*wanted, **more)}}, on_event=events.append)
        await bus.start()
        assert bus.servers["a"].era == era
        return bus, events

    return start


async def test_a_server_that_dies_of_the_modern_probe_is_started_again_in_the_legacy_era() -> None:
    async with Toolbus({"servers": {"a": plain("die_of_probe")}}) as bus:
        assert bus.servers["a"].era == "legacy"
        assert bus.servers["a"].protocol == "2025-06-18"
        assert (await bus.call("a_echo", {"text": "alive"})).text == "alive"


async def test_what_a_failed_probe_taught_is_remembered_for_every_later_connection(tmp_path: Path) -> None:
    trace = tmp_path / "probes"
    server = plain("die_of_probe", env={"PLAIN_TRACE": str(trace)})
    async with Toolbus({"servers": {"a": server}}) as bus:
        for _ in range(3):
            [link] = bus._servers.links.values()  # pyright: ignore[reportPrivateUsage]
            link.session.end("cut for the test")
            assert (await bus.call("a_echo", {"text": "alive"})).text == "alive"
    assert trace.read_text().splitlines().count("server/discover") == 1


async def test_text_and_bytes_that_are_no_messages_are_skipped_with_one_warning(seen: Seen) -> None:
    bus, events = await seen("talk")
    async with bus:
        assert (await bus.call("a_echo", {"text": "fine"})).text == "fine"
    [(tool, message)] = warnings(events)
    assert tool is None
    assert (
        message
        == "skipped 3 lines on its standard output that are not messages; first: 'Welcome to the server!'"
    )


async def test_a_request_of_the_server_is_answered_in_the_middle_of_a_call(seen: Seen) -> None:
    bus, _ = await seen("ping_back")
    async with bus:
        result = await bus.call("a_echo", {"text": "x"})
    answer = json.loads(result.text)
    assert answer["id"] == "from the server"
    # The modern era knows no requests of servers: it is told so, and the call goes on.
    assert answer.get("result") == {} or answer["error"]["code"] == -32601


async def test_a_flood_on_stderr_blocks_nothing(seen: Seen) -> None:
    bus, _ = await seen("stderr_flood")
    async with bus, asyncio.timeout(PATIENCE):
        assert (await bus.call("a_echo", {"text": "dry"})).text == "dry"


async def test_invalid_tools_are_quarantined_with_a_reason_and_the_good_ones_live(seen: Seen) -> None:
    bus, events = await seen("bad_tools")
    async with bus:
        kept = (
            *("a_bad_annotations", "a_bad_description", "a_bad_meta", "a_bad_output_schema"),
            "a_bad_title",
        )
        assert bus.catalog.names == ("a_also_good", *kept, "a_echo", "a_odd_but_fine")
        assert bus.catalog["a_echo"].description == "Say it again."
        assert (await bus.call("a_also_good", {"text": "yes"})).text == "yes"
    told = dict(warnings(events))
    assert set(told) == {
        "no_schema",
        "schema_is_text",
        "schema_is_null",
        "schema_is_list",
        "(no name)",
        "bad_annotations",
        "bad_description",
        "bad_output_schema",
        "bad_title",
        "bad_meta",
        "echo",
    }
    assert told["no_schema"] == "left out: inputSchema is missing"
    assert told["bad_title"] == "invalid parts of its definition were ignored: title"
    assert "twice" in told["echo"]
    assert len(warnings(events)) == 16


async def test_all_pages_are_listed(seen: Seen) -> None:
    bus, events = await seen("three_pages")
    async with bus:
        assert bus.catalog.names == ("a_echo_1", "a_echo_2", "a_echo_3")
    assert warnings(events) == []


@pytest.mark.parametrize("behaviour", ["endless_pages", "repeating_cursor"])
async def test_pages_without_end_are_cut_off_with_a_warning(seen: Seen, behaviour: str) -> None:
    bus, events = await seen(behaviour)
    async with bus:
        assert "a_echo_1" in bus.catalog
        assert bus.servers["a"].state == "ready"
    assert "pages because the list does not end" in warnings(events)[0][1]


async def test_lists_that_fail_do_not_fail_the_connection(seen: Seen) -> None:
    bus, events = await seen("broken_lists")
    async with bus:
        assert bus.servers["a"].state == "ready"
        assert bus.catalog.names == ("a_echo",)
        assert (bus.resources(), bus.templates(), bus.prompts()) == ([], [], [])
    assert [message.split(":")[0] for _, message in warnings(events)] == [
        "resources could not be listed",
        "templates could not be listed",
        "prompts could not be listed",
    ]


async def test_lists_that_a_server_does_not_have_are_no_warning(seen: Seen) -> None:
    bus, events = await seen("missing_lists")
    async with bus:
        assert bus.catalog.names == ("a_echo",)
        assert (bus.resources(), bus.templates(), bus.prompts()) == ([], [], [])
    assert warnings(events) == []


async def test_zero_tools_are_a_warning_with_a_reason(seen: Seen) -> None:
    bus, events = await seen("no_tools")
    async with bus:
        assert bus.servers["a"].state == "ready"
    assert warnings(events) == [(None, "connected, but it offers no tools: its list is empty")]


async def test_zero_tools_because_the_list_failed_says_so(seen: Seen) -> None:
    bus, events = await seen("broken_tools_list")
    async with bus:
        assert bus.servers["a"].tools == 0
    assert "connected, but it offers no tools: tools could not be listed" in warnings(events)[1][1]


async def test_tools_that_were_not_declared_are_found(seen: Seen) -> None:
    bus, _ = await seen("undeclared_tools")
    async with bus:
        assert bus.catalog.names == ("a_echo",)


async def test_a_block_of_an_unknown_kind_is_kept_as_text(seen: Seen) -> None:
    bus, _ = await seen("odd_blocks")
    async with bus:
        result = await bus.call("a_echo")
    assert result.content == (Text(text='{"type":"hologram","x":1,"y":"\\ud800"}'), Text(text="known"))


async def test_structured_content_without_blocks_is_a_result(seen: Seen) -> None:
    bus, _ = await seen("only_structured")
    async with bus:
        result = await bus.call("a_echo")
    assert (result.content, result.structured) == ((), {"a": 1})


async def test_an_image_that_is_not_base64_is_kept_as_sent(seen: Seen) -> None:
    bus, _ = await seen("bad_base64")
    async with bus:
        [image] = (await bus.call("a_echo")).content
    assert isinstance(image, Image)
    assert image.mime_type == "image/png"


@pytest.mark.parametrize("behaviour", ["no_result", "invalid_result"])
async def test_an_answer_that_is_no_result_fails_that_one_call(seen: Seen, behaviour: str) -> None:
    bus, _ = await seen(behaviour)
    async with bus:
        with pytest.raises(ServerRejected) as caught:
            await bus.call("a_echo")
        assert "\n" not in str(caught.value)
        assert bus.servers["a"].state == "ready"
        assert (await bus.health())["a"].ok


async def test_output_that_does_not_match_its_schema_is_a_warning_and_the_data_is_kept(seen: Seen) -> None:
    bus, events = await seen("wrong_output")
    async with bus:
        result = await bus.call("a_echo")
    assert (result.text, result.structured) == ("kept", {"n": "seven"})
    [(tool, message)] = warnings(events)
    assert tool == "echo"
    assert "does not match its schema" in message
    assert '"seven" is not of type "integer"' in message


async def test_an_output_schema_that_is_no_use_is_a_warning(seen: Seen) -> None:
    bus, events = await seen("broken_output_schema")
    async with bus:
        assert (await bus.call("a_echo")).structured == {"n": 1}
    expected = "the output is not checked: its schema cannot be used: #/nowhere is not in the schema"
    assert expected in warnings(events)[0][1]


async def test_a_modern_tool_whose_header_annotations_are_invalid_is_left_out() -> None:
    events: list[Event] = []
    config = {"servers": {"a": plain("modern", "header_tools")}}
    async with Toolbus(config, on_event=events.append) as bus:
        assert bus.catalog.names == ("a_good",)
        assert (await bus.call("a_good", {"text": "x"})).text == "x"
    assert warnings(events) == [("bad", "left out: its x-mcp-header annotations are invalid")]


async def test_answers_out_of_order_twice_and_to_unknown_requests_find_their_calls(seen: Seen) -> None:
    bus, _ = await seen("reorder", "answer_twice")
    async with bus, asyncio.timeout(PATIENCE):
        results = await asyncio.gather(*(bus.call("a_echo", {"text": str(n)}) for n in range(4)))
    assert [result.text for result in results] == ["0", "1", "2", "3"]


async def test_only_what_the_config_names_reaches_the_environment_of_a_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AMBIENT", "ambient")
    day = {"command": warm.python(), "args": [str(SERVERS / "everyday.py"), "stdio"]}
    servers = {
        "safe": day | {"env": {"NAMED": "named"}},
        "some": day | {"inherit_env": ["AMBIENT"]},
        "everything": day | {"inherit_env": "all"},
    }
    async with Toolbus({"servers": servers}) as bus:

        async def variable(server: str, name: str) -> str:
            return (await bus.call(f"{server}/environment", {"name": name})).text

        assert await variable("safe", "NAMED") == "named"
        assert await variable("safe", "AMBIENT") == "(unset)"
        assert await variable("some", "AMBIENT") == "ambient"
        assert await variable("everything", "AMBIENT") == "ambient"
