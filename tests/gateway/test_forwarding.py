"""Operations for an MCP client: values pass as they are, and questions go to the client, in both eras."""

from dataclasses import replace
from typing import Any

import pytest

from tests.conftest import Place
from tests.inside.bus import calls_of
from tests.inside.core import (
    ClientError,
    Forwarding,
    Interactions,
    ListChanged,
    QuestionRouting,
    ServerRejected,
    Text,
    ToolResult,
    as_sent,
    contents_json,
    received_of,
    request_spec,
)
from toolbus import Toolbus

pytestmark = pytest.mark.anyio

EVERYTHING: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
ANSWERS: dict[str, dict[str, Any]] = {
    "elicitation/create": {"action": "accept", "content": {"date": "2026-12-24"}},
    "sampling/createMessage": {
        "role": "assistant",
        "content": {"type": "text", "text": "Winter"},
        "model": "toy",
    },
    "roots/list": {"roots": [{"uri": "file:///home/ann"}]},
}


class Person:
    """A client that answers what it is asked, and remembers it."""

    def __init__(self, capabilities: dict[str, Any] = EVERYTHING) -> None:
        self.capabilities = capabilities
        self.asked: list[tuple[str, str, Any]] = []

    async def ask(self, server: str, method: str, params: Any) -> Any:
        self.asked.append((server, method, params))
        return ANSWERS[method]


@pytest.fixture(params=["modern", "legacy"])
def place(request: pytest.FixtureRequest, asking_ports: dict[str, int]) -> Place:
    return Place("http", request.param, asking_ports, "asking.py")


def bus_of(place: Place, **more: Any) -> Toolbus:
    return Toolbus(
        {"servers": {"a": place.config()}},
        interactions=Interactions(_routing=QuestionRouting(forwards=True)),
        **more,
    )


async def called(bus: Toolbus, client: Person, name: str, arguments: dict[str, Any]) -> ToolResult:
    """A call, with the rounds that a modern server wants."""
    forwarding = Forwarding(client=client)
    for _ in range(5):
        result = await calls_of(bus).forward(bus.catalog[name], arguments, forwarding)
        if (pending := result.pending) is None:
            return result
        responses = {
            key: await client.ask(pending.server, request["method"], request.get("params"))
            for key, request in pending.requests.items()
        }
        forwarding = replace(
            forwarding,
            responses=responses | dict(pending.answered),
            state=pending.state,
            rounds=pending.rounds,
        )
    raise AssertionError("it asks without end")


async def test_a_result_is_what_the_server_sent(place: Place) -> None:
    async with bus_of(place) as bus:
        result = await called(bus, Person(), "a_tell", {"text": "hi"})
        sent = as_sent(result)
        assert sent["content"] == [{"type": "text", "text": "hi"}]
        received = received_of(result)
        assert received is not None
        assert sent is received.json


@pytest.mark.parametrize(
    ("tool", "arguments", "method", "text"),
    [
        ("book", {"guest": "Ann"}, "elicitation/create", "Ann: 2026-12-24, 2, inside, quiet False"),
        ("pay", {}, "elicitation/create", "payment: accept"),
        ("title", {"about": "snow"}, "sampling/createMessage", "Winter (toy)"),
        ("folders", {}, "roots/list", "file:///home/ann"),
    ],
)
async def test_what_a_server_asks_goes_to_the_client(
    tool: str, arguments: dict[str, Any], method: str, text: str, place: Place
) -> None:
    client = Person()
    async with bus_of(place) as bus:
        assert (await called(bus, client, f"a_{tool}", arguments)).text == text
    assert [(server, asked) for server, asked, _ in client.asked] == [("a", method)]


async def test_a_client_that_declared_nothing_is_asked_nothing(place: Place) -> None:
    client = Person({})
    async with bus_of(place) as bus:
        with pytest.raises(ServerRejected) as rejected:
            await called(bus, client, "a_book", {"guest": "Ann"})
    if place.era == "modern":
        assert rejected.value.code == -32021
        assert rejected.value.data == {"requiredCapabilities": {"elicitation": {"form": {}}}}
    else:
        assert (rejected.value.code, rejected.value.message) == (
            -32600,
            "the client does not support elicitation",
        )
    assert not client.asked


async def test_an_error_of_the_client_reaches_a_legacy_server(asking_ports: dict[str, int]) -> None:
    class Busy(Person):
        async def ask(self, server: str, method: str, params: Any) -> Any:
            raise ClientError(-32603, "nobody is there")

    async with bus_of(Place("http", "legacy", asking_ports, "asking.py")) as bus:
        with pytest.raises(ServerRejected, match="nobody is there"):  # the server sends it back
            await called(bus, Busy(), "a_book", {"guest": "Ann"})


async def test_resources_prompts_and_completions_are_what_the_server_sent(place: Place) -> None:
    forwarding = Forwarding(client=Person())
    async with bus_of(place) as bus:
        read = request_spec("resources/read", "a", "board://now")
        contents = contents_json(await calls_of(bus).forward(read, {"uri": "board://now"}, forwarding))
        assert contents["contents"] == [{"uri": "board://now", "mimeType": "text/plain", "text": "empty"}]

        prompt = request_spec("prompts/get", "a", "review")
        got = as_sent(await calls_of(bus).forward(prompt, {"language": "go"}, forwarding))
        assert [message["content"]["type"] for message in got["messages"]] == [
            "text",
            "image",
            "resource",
            "text",
        ]

        asked: dict[str, Any] = {"argument": "language", "value": "p", "known": {}, "is_template": False}
        complete = request_spec("completion/complete", "a", "review")
        assert as_sent(await calls_of(bus).forward(complete, asked, forwarding))["completion"]["values"] == [
            "python"
        ]


async def test_a_hook_still_changes_what_the_client_gets(place: Place) -> None:
    async def hide(call: Any, proceed: Any) -> ToolResult:
        return replace(await proceed(call), content=(Text(text="***"),))

    async with bus_of(place, hooks=[hide]) as bus:
        sent = as_sent(await called(bus, Person(), "a_tell", {"text": "secret"}))
    assert sent["content"] == [{"type": "text", "text": "***"}]
    assert "secret" not in str(sent)


async def test_a_policy_declines_questions_before_the_client_sees_them(place: Place) -> None:
    config = {"servers": {"a": place.config()}, "policy": [{"requests": "a/elicitation", "do": "deny"}]}
    client = Person()
    async with Toolbus(config, interactions=Interactions(_routing=QuestionRouting(forwards=True))) as bus:
        assert (await called(bus, client, "a_book", {"guest": "Ann"})).text == "not booked: decline"
    assert not client.asked


async def test_a_task_is_followed_for_a_client_without_tasks_and_handed_to_one_with(
    asking_ports: dict[str, int],
) -> None:
    place = Place("http", "modern", asking_ports, "asking.py")
    tasks: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    async with bus_of(place) as bus:
        spec, arguments = bus.catalog["a_dig"], {"depth": 1}
        followed = await calls_of(bus).forward(spec, arguments, Forwarding(client=Person(tasks)))
        assert as_sent(followed)["content"] == [{"type": "text", "text": "dug 1 as a task"}]
        handed = await calls_of(bus).forward(spec, arguments, Forwarding(client=Person(tasks)), detached=True)
        assert handed.pending is not None
        assert handed.pending.task is not None
        assert as_sent(handed)["resultType"] == "task"
        about = request_spec("tasks/get", "a", "dig")
        state = await calls_of(bus).forward(
            about, {"taskId": handed.pending.task}, Forwarding(client=Person(tasks))
        )
        assert as_sent(state)["taskId"] == handed.pending.task
        plain = await calls_of(bus).forward(spec, arguments, Forwarding(client=Person({})))
        assert plain.text == "dug 1"


async def test_lists_that_were_made_anew_are_reported(place: Place) -> None:
    seen: list[str] = []
    bus = bus_of(place)
    bus.on_event(lambda event: seen.append(event.kind) if isinstance(event, ListChanged) else None)
    async with bus:
        assert seen == ["tools", "resources", "prompts"]
