"""The scripted provider is believed by the providers' own packages, on every wire, plain and streamed."""

import os
import socket
import threading
from typing import Any

import anthropic
import anyio
import httpx2
import openai
import pytest
from google import genai

from tests.patience import PATIENCE
from tests.wire import Asked, Fault, Given, Provider, Say, ToolCall, Turn
from tests.wire.asked import Wire
from tests.wire.clients import CLIENTS, MODEL, PROMPT, Question, Reply
from tests.wire.rounds import PIXEL, ROUNDS, TOLD

pytestmark = pytest.mark.anyio

Spoken = tuple[Wire, bool]
every_way = pytest.mark.parametrize(
    "way", CLIENTS, ids=lambda way: f"{way[0]}-{'stream' if way[1] else 'plain'}"
)
plain_ways = pytest.mark.parametrize("wire", ["chat", "responses", "anthropic", "google"])

TEXT = "Two words,\n and  some ünïcode. "


async def replied(way: Spoken, provider: Provider, **fields: Any) -> Reply:
    reply = Reply()
    with anyio.fail_after(PATIENCE):
        await CLIENTS[way](Question(url=provider.url, fields=fields), reply)
    return reply


@every_way
async def test_a_text_arrives_to_the_letter(way: Spoken) -> None:
    with Provider([TEXT]) as provider:
        reply = await replied(way, provider)
    assert (reply.text, reply.calls) == (TEXT, [])
    assert 0 < reply.tokens < 20
    [asked] = provider.asked
    assert (asked.wire, asked.streamed) == way
    assert (asked.model, asked.prompt, asked.system, asked.given, asked.tools) == (MODEL, PROMPT, "", (), {})
    assert provider.left == []


@every_way
async def test_an_empty_text_arrives(way: Spoken) -> None:
    with Provider([""]) as provider:
        assert (await replied(way, provider)).text == ""


@every_way
async def test_one_call_arrives(way: Spoken) -> None:
    arguments = {"city": "Zürich", "days": [1, 2, 3], "deep": {"er": None}}
    with Provider([[ToolCall("weather", arguments)]]) as provider:
        reply = await replied(way, provider)
    assert (reply.text, reply.calls) == ("", [("call_1", "weather", arguments)])


@every_way
async def test_parallel_calls_after_a_text_arrive_with_ids_of_their_own(way: Spoken) -> None:
    script: list[Turn] = [
        Say("Looking.", calls=(ToolCall("first", {"a": 1}), ToolCall("second"))),
        (ToolCall("third"),),
    ]
    with Provider(script) as provider:
        reply = await replied(way, provider)
        later = await replied(way, provider)
    assert reply.text == "Looking."
    assert reply.calls == [("call_1", "first", {"a": 1}), ("call_2", "second", {})]
    assert later.calls == [("call_3", "third", {})]


@every_way
async def test_what_the_model_was_told_is_read_the_same_on_every_wire(way: Spoken) -> None:
    with Provider(["done"]) as provider:
        await replied(way, provider, **ROUNDS[way[0]])
    [asked] = provider.asked
    assert asked.given == TOLD[way[0]]
    assert asked.new == TOLD[way[0]][1:]
    assert (asked.system, asked.prompt) == ("Be kind.", PROMPT)
    assert list(asked.tools) == ["look"]
    assert asked.images == ((PIXEL,) if way[0] == "chat" else ())


async def test_a_tool_is_kept_as_it_was_sent() -> None:
    with Provider(["done"]) as provider:
        await replied(("chat", False), provider, **ROUNDS["chat"])
    [asked] = provider.asked
    assert asked.tools == {"look": ROUNDS["chat"]["tools"][0]}
    assert asked.body["tools"] == ROUNDS["chat"]["tools"]
    assert asked.headers["authorization"] == "Bearer any"


async def test_a_result_without_its_call_is_named_by_what_the_provider_called() -> None:
    item = {"type": "function_call_output", "call_id": "call_1", "output": "fine"}
    with Provider([[ToolCall("look")], "done"]) as provider:
        await replied(("responses", False), provider)
        await replied(("responses", False), provider, input=[item], previous_response_id="resp_1")
    expected = (Given(id="call_1", name="look", text="fine"),)
    assert (provider.asked[1].given, provider.asked[1].new) == (expected, expected)


async def test_malformed_arguments_go_out_to_the_letter() -> None:
    with Provider([[ToolCall("look", '{"a": ')]]) as provider:
        async with openai.AsyncOpenAI(base_url=f"{provider.url}/v1", api_key="any") as client:
            answer = await client.chat.completions.create(
                model=MODEL, messages=[{"role": "user", "content": PROMPT}]
            )
    [call] = answer.choices[0].message.tool_calls or []
    assert call.type == "function"
    assert call.function.arguments == '{"a": '


@pytest.mark.parametrize("way", [("anthropic", False), ("google", False), ("google", True)])
async def test_malformed_arguments_are_refused_where_the_wire_has_no_place_for_them(way: Spoken) -> None:
    with Provider([[ToolCall("look", '{"a": ')]]) as provider:
        with pytest.raises((anthropic.BadRequestError, genai.errors.ClientError), match="JSON object"):
            await replied(way, provider)
        assert len(provider.asked) == 1


@every_way
async def test_a_status_arrives_as_the_error_class_of_the_package(way: Spoken) -> None:
    with Provider([Fault(429, "slow down", retry_after=7)]) as provider:
        if way[0] == "google":
            with pytest.raises(genai.errors.ClientError, match="slow down") as google_error:
                await replied(way, provider)
            assert (google_error.value.code, google_error.value.status) == (429, "RESOURCE_EXHAUSTED")
            assert google_error.value.response.headers["retry-after"] == "7"
            return
        with pytest.raises((openai.RateLimitError, anthropic.RateLimitError), match="slow down") as error:
            await replied(way, provider)
    assert error.value.response.headers["retry-after"] == "7"
    assert isinstance(error.value, openai.RateLimitError) == (way[0] in ("chat", "responses"))


@every_way
async def test_a_break_comes_after_the_text_of_a_stream_and_instead_of_a_plain_answer(way: Spoken) -> None:
    reply = Reply()
    lost = (openai.APIConnectionError, anthropic.APIConnectionError, httpx2.RemoteProtocolError)
    with Provider([Fault(breaks=True, text="so far so")]) as provider:
        with anyio.fail_after(PATIENCE), pytest.raises(lost):
            await CLIENTS[way](Question(url=provider.url), reply)
        assert len(provider.asked) == 1
    assert reply.text == ("so far so" if way[1] else "")


@every_way
async def test_a_client_that_hangs_can_be_cancelled_and_the_next_one_is_served(way: Spoken) -> None:
    arrived = threading.Event()

    def script(asked: Asked) -> Turn:
        if arrived.is_set():
            return "here again"
        arrived.set()
        return Fault(hangs=True)

    with Provider(script) as provider, anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(replied, way, provider)
            assert await anyio.to_thread.run_sync(arrived.wait, 10)
            group.cancel_scope.cancel()
        assert (await replied(way, provider)).text == "here again"


async def test_leaving_the_block_does_not_wait_for_a_client_that_waits() -> None:
    arrived = threading.Event()

    def script(asked: Asked) -> Turn:
        arrived.set()
        return Fault(hangs=True)

    async def ask(provider: Provider) -> None:
        with pytest.raises(openai.APIConnectionError):
            await replied(("chat", False), provider)

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            with Provider(script) as provider:
                group.start_soon(ask, provider)
                assert await anyio.to_thread.run_sync(arrived.wait, 60)


@every_way
async def test_a_script_that_is_used_up_says_so_and_is_not_asked_again(way: Spoken) -> None:
    refused = (openai.BadRequestError, anthropic.BadRequestError, genai.errors.ClientError)
    with Provider(["only"]) as provider:
        await replied(way, provider)
        with pytest.raises(refused, match="1 turns were scripted"):
            await replied(way, provider)
        assert len(provider.asked) == 2


@plain_ways
async def test_an_error_of_the_scripts_function_reaches_the_client(wire: Wire) -> None:
    def script(asked: Asked) -> Turn:
        raise LookupError(asked.prompt)

    refused = (openai.BadRequestError, anthropic.BadRequestError, genai.errors.ClientError)
    with Provider(script) as provider, pytest.raises(refused, match="LookupError"):
        await replied((wire, False), provider)


async def test_turns_that_are_left_can_be_seen() -> None:
    with Provider(["one", "two"]) as provider:
        await replied(("chat", False), provider)
        assert provider.left == ["two"]


def test_a_turn_of_the_wrong_kind_is_refused_where_it_is_written() -> None:
    with pytest.raises(TypeError, match="ToolCall"):
        Provider([ToolCall("look")])  # pyright: ignore[reportArgumentType]  the mistake itself


def test_no_address_is_used_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a client that is kept for an address would be used again, in another event loop."""
    with Provider([]) as provider:
        used = provider.url
    create, ports = socket.create_server, [int(used.rpartition(":")[2])]

    def create_server(address: tuple[str, int]) -> socket.socket:
        return create((address[0], ports.pop() if ports else 0))

    monkeypatch.setattr(socket, "create_server", create_server)
    with Provider([]) as other:
        assert ports == []
        assert other.url != used


def test_a_synchronous_client_finds_the_provider_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with Provider(["one", "two", "three"]) as provider:
        monkeypatch.delenv("GEMINI_API_KEY", raising=False)
        for name, value in provider.environment.items():
            monkeypatch.setenv(name, value)
        assert os.environ["OPENAI_BASE_URL"] == f"{provider.url}/v1"
        with openai.OpenAI() as client:
            assert [model.id for model in client.models.list()] == ["scripted"]
            assert client.responses.create(model=MODEL, input=PROMPT).output_text == "one"
        with anthropic.Anthropic() as client:
            message = client.messages.create(
                model=MODEL, max_tokens=9, messages=[{"role": "user", "content": PROMPT}]
            )
            assert [block.text for block in message.content if block.type == "text"] == ["two"]
        with genai.Client() as client:
            assert client.models.generate_content(model=MODEL, contents=PROMPT).text == "three"
