"""The behavior of every adapter, shown by the framework's own agent loop with real servers.

A framework's test file gives a `Harness` and a class that inherits from `Contract`. The model is a script,
played by a local server in the wire format of a provider. So the framework, its provider client and the
adapter are real. The model's input is read from the requests that came in.

Features that a framework lacks are in `Harness.cannot`. Such a test has to fail, and the table in
docs/frameworks lists the same features.
"""

import asyncio
import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, cast

import pytest

from tests.adapters.studio import ODD, REPORT, REVIEW, heard, studio
from tests.conftest import Place
from tests.patience import PATIENCE, until, wait_until
from tests.servers.everyday import PNG, WAV
from tests.wire import Asked, Given, Provider, Say, ToolCall
from toolbus import Toolbus
from toolbus.adapters.media import base64_data
from toolbus.bus.view import View
from toolbus.events import CallStarted
from toolbus.records import Audio, PromptResult

Point: TypeAlias = Literal["parallel", "image", "appears", "cancel", "document", "unknown"]
"""Features that some frameworks lack; all others are required."""
POINTS: Mapping[Point, str] = {
    "parallel": "the calls of one turn overlap",
    "image": "the model sees pictures",
    "appears": "a new tool is offered in the same run",
    "cancel": "a cancelled run cancels its calls on the server",
    "document": "the model reads the PDFs of a prompt",
    "unknown": "a run goes on after a name that no tool has",
}
SOUND = Audio(data=WAV, mime_type="audio/wav")

Script: TypeAlias = Sequence[Say | str | list[ToolCall]] | Callable[[Asked], Say | str | list[ToolCall]]


class Harness(ABC):
    """The way to run an agent of one framework with the tools of a bus."""

    name: ClassVar[str]
    """The name of the adapter's file."""
    cannot: ClassVar[Mapping[Point, str]] = {}
    """The missing features of the framework, with the reasons."""

    @abstractmethod
    async def run(self, bus: Toolbus, prompt: str) -> str:
        """Make an agent as the adapter's page shows, let it answer the prompt, give its last words.

        The addresses and keys of all providers are in the environment.
        """

    @abstractmethod
    async def say(self, bus: Toolbus, prompt: PromptResult) -> str:
        """Like `run`, but with the messages of a prompt as input."""


@dataclass
class Stage:
    """A bus with the everyday server as `desk`, and a model that follows a script."""

    bus: Toolbus
    harness: Harness
    monkeypatch: pytest.MonkeyPatch

    @contextmanager
    def model(self, script: Script) -> Generator[Provider]:
        """The environment of the run leads to a model that follows the script."""
        with Provider(script) as provider, self.monkeypatch.context() as patch:
            for name, value in provider.environment.items():
                patch.setenv(name, value)
            yield provider

    async def play(self, script: Script, bus: View | None = None) -> tuple[str, list[Asked]]:
        """Run an agent to the end; gives its last words and what the model was asked at every turn."""
        with self.model(script) as provider:
            async with asyncio.timeout(PATIENCE * 2):
                said = await self.harness.run(cast(Toolbus, bus or self.bus), "Go.")
            return said, provider.asked

    async def prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> PromptResult:
        """A prompt of the studio."""
        if "studio" not in self.bus.servers:
            await self.bus.add_server("studio", {"server": studio()})
        return await self.bus.get_prompt("studio", name, arguments)

    async def say(self, name: str, arguments: Mapping[str, str] | None = None) -> Asked:
        """Let an agent say a prompt of the studio; gives what its model was asked."""
        prompt = await self.prompt(name, arguments)
        with self.model(["Done."]) as provider:
            async with asyncio.timeout(PATIENCE * 2):
                assert await self.harness.say(self.bus, prompt) == "Done."
        [asked] = provider.asked
        return asked

    async def hangs(self, counts: str) -> None:
        """Wait until the server has begun and cancelled the given numbers of calls of `hang`."""
        deadline = time.monotonic() + 60
        while True:
            found = (await self.bus.call("desk_hangs")).text
            if found == counts:
                return
            assert time.monotonic() < deadline, f"begun and cancelled: {found}, expected {counts}"
            await asyncio.sleep(0.01)

    async def told(self, *calls: ToolCall) -> tuple[Given, ...]:
        """The results that the model gets when it makes these calls in one turn."""
        said, asked = await self.play([list(calls), "Done."])
        assert (said, len(asked)) == ("Done.", 2)
        return asked[1].new


# Frameworks keep their HTTP clients open for the next run, which a test never has.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.anyio
class Contract:
    """The suite; a subclass gives the harness. `stage` has a web server, `own_stage` a process of its own."""

    harness: ClassVar[Harness]

    async def test_a_call_and_its_result(self, stage: Stage) -> None:
        said, asked = await stage.play([[ToolCall("desk_add", {"a": 1, "b": 2})], "It is 3."])
        assert said == "It is 3."
        assert set(asked[0].tools) >= set(stage.bus.catalog.names)
        assert [(given.name, given.text) for given in asked[1].new] == [("desk_add", "3")]

    async def test_a_model_searches_for_tools_and_calls_what_it_found(self, stage: Stage) -> None:
        said, asked = await stage.play(_searching, stage.bus.view(expose="search"))
        assert (said, len(asked)) == ("Done.", 3)
        loaded = {name for name, tool in asked[0].tools.items() if not (tool and tool.get("defer_loading"))}
        assert len(loaded & set(stage.bus.catalog.names) - {"read_result"}) == 0
        assert [one.tools for one in asked] == [asked[0].tools] * 3
        assert asked[2].new[0].text == "3"

    async def test_the_calls_of_one_turn_overlap(self, own_stage: Stage) -> None:
        told = await own_stage.told(
            ToolCall("desk_meet", {"mine": "a", "other": "b"}),
            ToolCall("desk_meet", {"mine": "b", "other": "a"}),
        )
        assert sorted(given.text for given in told) == ["a met b", "b met a"]

    async def test_wrong_arguments_are_told_to_the_model(self, stage: Stage) -> None:
        [given] = await stage.told(ToolCall("desk_add", {"a": "one", "b": 2}))
        assert "MCP error" in given.text
        assert "integer" in given.text
        assert given.is_error in (True, None)

    async def test_a_run_goes_on_after_a_name_that_no_tool_has(self, stage: Stage) -> None:
        said, asked = await stage.play([[ToolCall("desk_nowhere")], "Done."])
        assert (said, len(asked)) == ("Done.", 2)

    async def test_the_error_of_a_tool_is_told_to_the_model(self, stage: Stage) -> None:
        [given] = await stage.told(ToolCall("desk_fail", {"reason": "the ink is dry"}))
        assert "the ink is dry" in given.text
        assert given.is_error in (True, None)

    async def test_a_tool_that_takes_too_long_is_told_to_the_model(
        self, stage: Stage, web_ports: dict[str, int]
    ) -> None:
        config = Place("http", "legacy", web_ports).config(timeouts={"call": 0.5})
        await stage.bus.add_server("slow", config)
        [given] = await stage.told(ToolCall("slow_hang"))
        assert "0.5 s" in given.text

    async def test_text_around_other_content_reaches_the_model(self, stage: Stage) -> None:
        [given] = await stage.told(ToolCall("desk_many"))
        assert given.text.index("first") < given.text.index("memo://greeting") < given.text.index("last")
        assert "UklGR" not in given.text, "base64 is nothing for a model to read"

    async def test_the_model_sees_pictures(self, stage: Stage) -> None:
        said, asked = await stage.play([[ToolCall("desk_many")], "Seen."])
        assert said == "Seen."
        assert PNG in (*asked[1].new[0].images, *asked[1].images)

    async def test_a_prompt_reaches_the_model_as_messages(self, stage: Stage) -> None:
        assert heard(await stage.say("review", {"of": "tea"})) == REVIEW

    async def test_the_model_reads_the_documents_of_a_prompt(self, stage: Stage) -> None:
        assert heard(await stage.say("report")) == REPORT

    async def test_what_is_broken_in_a_prompt_is_told_to_the_model(self, stage: Stage) -> None:
        assert heard(await stage.say("odd")) == ODD

    async def test_the_sound_of_a_prompt_is_heard_or_told(self, stage: Stage) -> None:
        asked = await stage.say("listen")
        [said] = heard(asked)
        assert said.text.removeprefix("[audio: audio/wav, 16 B]\n") == "What is it?"
        assert ("[audio" in said.text) != (base64_data(SOUND) in str(asked.body))

    async def test_arguments_may_have_any_name(self, stage: Stage) -> None:
        """Frameworks take names such as `config` for themselves."""
        names = ["self", "config", "ctx", "run_manager", "args", "name", "input"]
        given = {name: f"the {name}" for name in names}
        [told] = await stage.told(ToolCall("desk_names", given))
        assert told.text == " ".join(given.values())

    async def test_a_new_tool_is_offered_in_the_same_run(self, own_stage: Stage) -> None:
        def script(asked: Asked) -> str | list[ToolCall]:
            match len(asked.given):
                case 0:
                    return [ToolCall("desk_grow", {"name": "fresh"})]
                case 1:
                    wait_until(lambda: "desk_fresh" in own_stage.bus.catalog)
                    return [ToolCall("desk_add", {"a": 1, "b": 2})]
                case 2:
                    return [ToolCall("desk_fresh")] if "desk_fresh" in asked.tools else "Nothing new."
                case _:
                    return asked.given[-1].text

        said, _ = await own_stage.play(script)
        assert said == "I am fresh"

    async def test_a_new_tool_is_offered_in_the_next_run(self, own_stage: Stage) -> None:
        await own_stage.told(ToolCall("desk_grow", {"name": "fresh"}))
        await until(lambda: "desk_fresh" in own_stage.bus.catalog)
        [given] = await own_stage.told(ToolCall("desk_fresh"))
        assert given.text == "I am fresh"

    async def test_a_server_that_dies_in_mid_run_comes_back(self, own_stage: Stage) -> None:
        def script(asked: Asked) -> str | list[ToolCall]:
            match len(asked.given):
                case 0:
                    return [ToolCall("desk_process")]
                case 1:
                    os.kill(int(asked.given[0].text), signal.SIGKILL)
                    # What is sent before the loss is seen may have taken effect, and is not sent twice.
                    wait_until(lambda: own_stage.bus.servers["desk"].state != "ready")
                    return [ToolCall("desk_process")]
                case _:
                    return " ".join(given.text for given in asked.given)

        said, _ = await own_stage.play(script)
        first, second = map(int, said.split())
        assert first != second

    async def test_a_cancelled_run_cancels_its_calls(self, own_stage: Stage) -> None:
        hanging = asyncio.Event()
        own_stage.bus.on_event(lambda event: hanging.set() if isinstance(event, CallStarted) else None)
        with own_stage.model([[ToolCall("desk_hang")], "Too late."]):
            run = asyncio.create_task(own_stage.harness.run(own_stage.bus, "Go."))
            async with asyncio.timeout(PATIENCE):
                await hanging.wait()
                await own_stage.hangs("1 0")
                run.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await run
            await own_stage.hangs("1 1")


def _searching(asked: Asked) -> Say | str | list[ToolCall]:
    """Look for a tool, and call it in the way that the request offers."""
    sums = {"a": 1, "b": 2}
    match len(asked.given):
        case 0:
            return [ToolCall("search_tools", {"queries": ["add two numbers"]})]
        case 1 if "call_tool" in asked.tools:
            return [ToolCall("call_tool", {"name": "desk_add", "arguments": sums})]
        case 1:
            return [ToolCall("desk_add", sums)]
        case _:
            return "Done."


PROVES: Mapping[str, Point] = {
    "test_the_calls_of_one_turn_overlap": "parallel",
    "test_the_model_sees_pictures": "image",
    "test_a_run_goes_on_after_a_name_that_no_tool_has": "unknown",
    "test_a_new_tool_is_offered_in_the_same_run": "appears",
    "test_a_cancelled_run_cancels_its_calls": "cancel",
    "test_the_model_reads_the_documents_of_a_prompt": "document",
}
