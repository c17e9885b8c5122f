"""`server-everything`, the TypeScript SDK's show piece: every kind of answer, over every transport."""

import asyncio
import gzip
import os
import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.conftest import sampled
from tests.gateway.serving import free_port
from tests.interop.servers import INTEROP, SERVERS, require_installed
from tests.patience import PATIENCE
from toolbus import (
    Answer,
    ArgumentsError,
    CallTimeout,
    Elicitation,
    Interactions,
    ServerRejected,
    Toolbus,
    ToolResult,
)
from toolbus.events import Event, Logged, ResourceUpdated
from toolbus.records import (
    Embedded,
    Image,
    PromptMessage,
    PromptResult,
    ResourceLink,
    Sampling,
    SamplingResult,
    Text,
)

require_installed("node")

pytestmark = pytest.mark.anyio

PATHS = {"streamableHttp": "/mcp", "sse": "/sse"}
TRANSPORTS = ["stdio", *PATHS]
PNG = b"\x89PNG\r\n\x1a\n"


@contextmanager
def listening(kind: str) -> Generator[str]:
    """The server over HTTP in a process of its own; gives its URL."""
    command, port = str(INTEROP / SERVERS["everything"].command), free_port()
    env = os.environ | {"PORT": str(port)}
    with subprocess.Popen(
        [command, kind], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            # It says so once it listens. Its end would end the loop too; the test's limit bounds the wait.
            assert any(f"port {port}" in line for line in process.stderr), "the server ended at once"
            yield f"http://127.0.0.1:{port}{PATHS[kind]}"
        finally:
            process.terminate()
            process.wait(PATIENCE)


# What it answers does not depend on the transport; `each` has all of them without --full, too.
@pytest.fixture(scope="module", params=sampled(TRANSPORTS, "streamableHttp"))
def entry(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A config entry for the server over one transport."""
    if request.param == "stdio":
        yield SERVERS["everything"].config(tmp_path_factory.mktemp("everything"))
    else:
        with listening(request.param) as url:
            yield {"url": url}


each = pytest.mark.parametrize("entry", TRANSPORTS, indirect=True)


def bus_of(entry: dict[str, Any]) -> Toolbus:
    return Toolbus({"servers": {"all": entry | {"required": True}}})


@each
async def test_it_speaks_the_legacy_era_and_shows_all_it_has(entry: dict[str, Any]) -> None:
    async with bus_of(entry) as bus:
        status = bus.servers["all"]
        health = await bus.health()
        assert (status.state, status.era, status.protocol) == ("ready", "legacy", "2025-11-25")
        assert status.tools == len(bus.catalog) == 13
        assert health["all"].ok
        assert {resource.mime_type for resource in bus.resources()} == {"text/markdown"}
        assert [template.uri_template for template in bus.templates()] == [
            "demo://resource/dynamic/text/{resourceId}",
            "demo://resource/dynamic/blob/{resourceId}",
        ]
        prompts = {prompt.name for prompt in bus.prompts()}
        assert prompts == {"simple-prompt", "args-prompt", "completable-prompt", "resource-prompt"}


async def test_text_comes_back_by_either_name(entry: dict[str, Any]) -> None:
    async with bus_of(entry) as bus:
        echoed = await bus.call("all_echo", {"message": "héllo 世界"})
        added = await bus.call("all/get-sum", {"a": 1.5, "b": 2})
    assert echoed == ToolResult(content=(Text(text="Echo: héllo 世界"),))
    assert added == ToolResult(content=(Text(text="The sum of 1.5 and 2 is 3.5."),))


@each
async def test_many_calls_at_once_each_get_their_own_answer(entry: dict[str, Any]) -> None:
    async with bus_of(entry) as bus:
        results = await asyncio.gather(*(bus.call("all_echo", {"message": str(n)}) for n in range(64)))
    assert [result.text for result in results] == [f"Echo: {n}" for n in range(64)]


async def test_wrong_arguments_are_a_failed_result(entry: dict[str, Any]) -> None:
    async with bus_of(entry) as bus:
        result = await bus.call("all_get-sum", {"a": "one", "b": 2})
    assert result.is_error
    assert "argument 'a': expected a number" in result.text


async def test_an_image_stands_between_its_texts(entry: dict[str, Any]) -> None:
    async with bus_of(entry) as bus:
        result = await bus.call("all_get-tiny-image")
    before, image, after = result.content
    assert before == Text(text="Here's the image you requested:")
    assert isinstance(image, Image)
    assert image == Image(data=image.data, mime_type="image/png")
    assert image.data.startswith(PNG)
    assert after == Text(text="The image above is the MCP logo.")


async def test_annotations_stay_on_their_blocks(entry: dict[str, Any]) -> None:
    async with bus_of(entry) as bus:
        result = await bus.call("all_get-annotated-message", {"messageType": "error", "includeImage": True})
    text, image = result.content
    everyone = {"priority": 1, "audience": ["user", "assistant"]}
    assert text == Text(text="Error: Operation failed", annotations=everyone)
    assert isinstance(image, Image)
    assert image.annotations == {"priority": 0.5, "audience": ["user"]}


async def test_structured_content_comes_beside_its_text(entry: dict[str, Any]) -> None:
    weather = {"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82}
    text = '{"temperature":36,"conditions":"Light rain / drizzle","humidity":82}'
    async with bus_of(entry) as bus:
        output = bus.catalog["all/get-structured-content"].output_schema
        result = await bus.call("all_get-structured-content", {"location": "Chicago"})
    assert result == ToolResult(content=(Text(text=text),), structured=weather)
    assert output is not None
    assert set(output["properties"]) == set(weather)


async def test_resource_links_are_whole_and_can_be_followed(entry: dict[str, Any]) -> None:
    async with bus_of(entry) as bus:
        result = await bus.call("all_get-resource-links", {"count": 2})
        _, first, second = result.content
        assert isinstance(second, ResourceLink)
        [read] = await bus.read_resource("all", second.uri)
    assert first == ResourceLink(
        uri="demo://resource/dynamic/blob/1",
        name="Blob Resource 1",
        description="Resource 1: plaintext resource",
        mime_type="text/plain",
    )
    assert second.uri == read.uri == "demo://resource/dynamic/text/2"
    assert (read.text or "").startswith("Resource 2: This is a plaintext resource")


async def test_embedded_resources_come_as_text_or_bytes(entry: dict[str, Any]) -> None:
    async with bus_of(entry) as bus:
        texts = await bus.call("all_get-resource-reference", {"resourceType": "Text", "resourceId": 1})
        blobs = await bus.call("all_get-resource-reference", {"resourceType": "Blob", "resourceId": 2})
    text, blob = texts.content[1], blobs.content[1]
    assert isinstance(text, Embedded)
    assert isinstance(blob, Embedded)
    assert text == Embedded(uri="demo://resource/dynamic/text/1", text=text.text, mime_type="text/plain")
    assert blob == Embedded(uri="demo://resource/dynamic/blob/2", data=blob.data, mime_type="text/plain")
    assert (text.text or "").startswith("Resource 1: This is a plaintext resource")
    assert (blob.data or b"").startswith(b"Resource 2: This is a base64 blob")


async def test_a_file_made_by_a_tool_can_be_read_from_its_link(entry: dict[str, Any]) -> None:
    file = {"name": "hello.gz", "data": "data:text/plain;base64,aGVsbG8="}
    async with bus_of(entry) as bus:
        result = await bus.call("all_gzip-file-as-resource", file)
        [link] = result.content
        assert isinstance(link, ResourceLink)
        [read] = await bus.read_resource("all", link.uri)
    assert (link.name, link.mime_type) == ("hello.gz", "application/gzip")
    assert gzip.decompress(read.data or b"") == b"hello"


async def test_progress_arrives_step_by_step(entry: dict[str, Any]) -> None:
    heard: list[tuple[float, float | None, str | None]] = []
    operation = {"duration": 0.2, "steps": 4}

    def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    async with bus_of(entry) as bus:
        result = await bus.call("all_trigger-long-running-operation", operation, on_progress=hear)
    assert heard == [(1, 4, None), (2, 4, None), (3, 4, None), (4, 4, None)]
    assert result.text == "Long running operation completed. Duration: 0.2 seconds, Steps: 4."


async def test_a_call_that_takes_too_long_leaves_the_link_usable(entry: dict[str, Any]) -> None:
    async with bus_of(entry) as bus:
        with pytest.raises(CallTimeout) as caught:
            await bus.call("all_trigger-long-running-operation", {"duration": 50, "steps": 1}, timeout=0.2)
        after = await bus.call("all_echo", {"message": "still here"})
        assert bus.servers["all"].state == "ready"
    assert (caught.value.server, caught.value.seconds) == ("all", 0.2)
    assert after.text == "Echo: still here"


async def test_resources_are_read_and_unknown_ones_rejected(entry: dict[str, Any]) -> None:
    async with bus_of(entry) as bus:
        [page] = await bus.read_resource("all", "demo://resource/static/document/startup.md")
        with pytest.raises(ServerRejected) as caught:
            await bus.read_resource("all", "demo://nowhere")
    assert page.mime_type == "text/markdown"
    assert (page.text or "").startswith("# Everything Server")
    assert (caught.value.server, caught.value.code) == ("all", -32602)


async def test_prompts_are_filled_in(entry: dict[str, Any]) -> None:
    async with bus_of(entry) as bus:
        simple = await bus.get_prompt("all", "simple-prompt")
        filled = await bus.get_prompt("all", "args-prompt", {"city": "Paris", "state": "Texas"})
        embedding = await bus.get_prompt(
            "all", "resource-prompt", {"resourceType": "Text", "resourceId": "3"}
        )
    text = Text(text="This is a simple prompt without arguments.")
    assert simple == PromptResult(messages=(PromptMessage(role="user", content=text),))
    question = Text(text="What's weather in Paris, Texas?")
    assert filled == PromptResult(messages=(PromptMessage(role="user", content=question),))
    resource = embedding.messages[1].content
    assert isinstance(resource, Embedded)
    assert resource.uri == "demo://resource/dynamic/text/3"


def answering(asked: list[Elicitation]) -> Interactions:
    """A user who fills in required fields, agrees to visit addresses, and writes one word."""

    def elicit(question: Elicitation) -> Answer:
        asked.append(question)
        if question.url is not None:
            return question.accept()
        return question.accept({field.name: "Ann" for field in question.form.fields if field.required})

    def sample(sampling: Sampling) -> SamplingResult:
        return SamplingResult(content=Text(text=f"{sampling.max_tokens} words"), model="small")

    return Interactions(elicit=elicit, sample=sample, roots=["/srv/tea"])


@each
async def test_it_asks_a_person_a_model_and_for_folders(entry: dict[str, Any]) -> None:
    asked: list[Elicitation] = []
    config = {"servers": {"all": entry | {"required": True}}}
    async with Toolbus(config, interactions=answering(asked)) as bus:
        form = await bus.call("all/trigger-elicitation-request")
        again = await bus.call("all/trigger-elicitation-request")
        address = await bus.call("all/trigger-url-elicitation", {"url": "https://example.com/pay"})
        sampled = await bus.call("all/trigger-sampling-request", {"prompt": "tea", "maxTokens": 20})
        roots = await bus.call("all/get-roots-list")
        assert "Everything Server" in bus.catalog.instructions["all"]
    assert form.text == again.text
    assert '"name": "Ann"' in form.text
    assert '"firstLine": "It was a dark and stormy night."' in form.text, "a default was not filled in"
    assert {field.kind for field in asked[0].form.fields} == {
        *("text", "yes or no", "integer", "number", "choice", "choices"),
    }
    assert [question.url for question in asked] == [None, None, "https://example.com/pay"]
    assert '"action": "accept"' in address.text
    assert "20 words" in sampled.text
    assert "file:///srv/tea" in roots.text


async def test_a_tool_that_is_only_called_as_a_task_is_followed_to_its_end_and_may_ask(
    entry: dict[str, Any],
) -> None:
    said: list[str | None] = []
    asked: list[Elicitation] = []

    def elicit(question: Elicitation) -> Answer:
        asked.append(question)
        return question.accept({"interpretation": "snake"})

    config = {"servers": {"all": entry | {"required": True}}}
    async with Toolbus(config, interactions=Interactions(elicit=elicit)) as bus:
        result = await bus.call(
            "all/simulate-research-query",
            {"topic": "python", "ambiguous": True},
            on_progress=lambda done, total, message: said.append(message),
        )
    assert "# Research Report: python (snake)" in result.text
    assert [question.tool for question in asked] == ["simulate-research-query"]
    assert "Gathering sources..." in said


async def test_what_is_not_handled_is_not_declared_so_it_does_not_offer_it(entry: dict[str, Any]) -> None:
    async with bus_of(entry) as bus:
        assert "all/trigger-sampling-request" not in bus.catalog
        assert "all/trigger-elicitation-request" not in bus.catalog


async def test_it_completes_arguments_and_fills_in_templates(entry: dict[str, Any]) -> None:
    template = "demo://resource/dynamic/text/{resourceId}"
    async with bus_of(entry) as bus:
        departments = await bus.complete("all", "completable-prompt", "department", "E")
        names = await bus.complete(
            "all", "completable-prompt", "name", known={"department": departments.values[0]}
        )
        [read] = await bus.read_resource("all", template, {"resourceId": "3"})
        with pytest.raises(ArgumentsError, match="no value for 'resourceId'"):
            await bus.read_resource("all", template, {})
        with pytest.raises(ServerRejected):
            await bus.read_resource("all", "demo://nowhere")
    assert departments.values == ("Engineering",)
    assert len(names.values) > 1
    assert (read.uri, (read.text or "")[:10]) == ("demo://resource/dynamic/text/3", "Resource 3")


async def test_progress_of_a_long_call_extends_its_time(entry: dict[str, Any]) -> None:
    steps: list[tuple[float, float | None]] = []
    call = ("all/trigger-long-running-operation", {"duration": 6, "steps": 6})
    async with bus_of(entry) as bus:
        result = await bus.call(
            *call,
            timeout=5,
            max_timeout=PATIENCE,
            on_progress=lambda done, total, _: steps.append((done, total)),
        )
    assert "completed" in result.text
    assert steps[-1] == (6, 6)


async def test_a_changed_resource_and_the_log_are_events(entry: dict[str, Any]) -> None:
    changed, logged = asyncio.Event(), asyncio.Event()

    def hear(event: Event) -> None:
        if isinstance(event, ResourceUpdated) and event.uri == uri:
            changed.set()
        if isinstance(event, Logged) and "Subscribe" in str(event.data):
            logged.set()

    async with bus_of(entry) as bus:
        uri = bus.resources()[0].uri
        bus.on_event(hear)
        await bus.subscribe("all", uri)
        await bus.call("all/toggle-subscriber-updates")  # one every five seconds
        async with asyncio.timeout(PATIENCE):
            await logged.wait()
            await changed.wait()
        await bus.unsubscribe("all", uri)
