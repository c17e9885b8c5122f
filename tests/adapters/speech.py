"""A model's talk of tools with a framework that does not use the provider's own form for it.

Some frameworks tell results as plain text, want the last words as a call, or want calls as text. A script
speaks of calls and results in one form, and this module translates between the two.
"""

import ast
import atexit
import io
import json
import os
import re
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from tests.adapters.contract import Harness, Script, Stage
from tests.wire import Asked, Given, Provider, Say, ToolCall, Turn
from tests.wire.content import content_of
from tests.wire.turn import JSON, spelt_out


class Speech(ABC):
    """The way of one framework."""

    environment: ClassVar[dict[str, str]] = {}
    """The environment variables that keep it quiet."""

    @abstractmethod
    def said(self, words: Say) -> Turn:
        """The model's words, in the form that the framework reads."""

    @abstractmethod
    def rounds(self, texts: Sequence[tuple[str, str]]) -> Iterator[tuple[Given, ...]]:
        """The results of every turn, from the role and text of all messages."""

    def offered(self, asked: Asked) -> dict[str, JSON]:
        """The tools that the model may call."""
        return asked.tools

    def heard(self, asked: Asked) -> Asked:
        """The request as if it had come in the provider's form."""
        messages: list[JSON] = asked.body["messages"]
        rounds = list(self.rounds([(each["role"], content_of(each["content"]).text) for each in messages]))
        given = tuple(given for results in rounds for given in results)
        return replace(asked, tools=self.offered(asked), given=given, new=rounds[-1] if rounds else ())

    def script(self, script: Script) -> Callable[[Asked], Turn] | list[Turn]:
        """The script in the framework's way."""
        if callable(script):
            return lambda asked: self._turn(script(self.heard(asked)))
        return [self._turn(turn) for turn in script]

    def _turn(self, turn: Turn) -> Turn:
        words = spelt_out(turn)
        return self.said(words) if isinstance(words, Say) else words


class Observed(Speech):
    """smolagents, an agent that calls tools: results are observations of the user, the last words a call."""

    def said(self, words: Say) -> Turn:
        return words if words.calls else [ToolCall("final_answer", {"answer": words.text})]

    def rounds(self, texts: Sequence[tuple[str, str]]) -> Iterator[tuple[Given, ...]]:
        names: list[str] = []
        for role, text in texts:
            if role == "assistant":
                names = self.called(text)
            elif role == "user" and "New task:\n" not in text:
                yield tuple(self.results(text, names))

    def called(self, text: str) -> list[str]:
        """The names of the calls that the model is reminded of."""
        calls: list[JSON] = ast.literal_eval(text.partition("Calling tools:\n")[2] or "[]")
        return [call["function"]["name"] for call in calls]

    def results(self, text: str, names: list[str]) -> Iterator[Given]:
        """One for each call, if they can be told apart: they are put together as lines."""
        told = text.removeprefix("Observation:\n")
        lines = told.splitlines() if len(told.splitlines()) == len(names) else [told]
        for place, line in enumerate(lines):
            yield Given(id=str(place), name=names[place] if names else None, text=line)

    def heard(self, asked: Asked) -> Asked:
        return replace(super().heard(asked), images=tuple(map(_as_it_was, asked.images)))


class Coded(Observed):
    """smolagents, an agent that writes code."""

    def said(self, words: Say) -> Turn:
        lines = [f"print({call.name}(**{call.arguments!r}))" for call in words.calls]
        code = "\n".join(lines or [f"final_answer({words.text!r})"])
        return f"Thought: so be it.\n<code>\n{code}\n</code>"

    def called(self, text: str) -> list[str]:
        return re.findall(
            r"^print\((\w+)\(", text.partition("<code>")[2].partition("</code>")[0], re.MULTILINE
        )

    def results(self, text: str, names: list[str]) -> Iterator[Given]:
        printed = re.search(r"Execution logs:\n(.*)\nLast output from code snippet:", text, re.DOTALL)
        return super().results(printed[1] if printed else text, names)

    def offered(self, asked: Asked) -> dict[str, JSON]:
        return dict.fromkeys(re.findall(r"^ *def (\w+)\(", asked.system, re.MULTILINE))


# CrewAI keeps the outputs of tasks there, and makes the folder itself; nothing of it is for the next process.
STORAGE = Path(tempfile.gettempdir()) / f"toolbus-crewai-{os.getpid()}"
atexit.register(shutil.rmtree, STORAGE, ignore_errors=True)


class ReAct(Speech):
    """CrewAI: calls and results are text of the model. At times it adds to a result how to call tools."""

    environment: ClassVar[dict[str, str]] = {
        "CREWAI_DISABLE_TELEMETRY": "true",
        "CREWAI_STORAGE_DIR": str(STORAGE),
        "CREWAI_TESTING": "true",  # without, it asks at the console whether it may send traces
        "LITELLM_LOCAL_MODEL_COST_MAP": "true",
        "OTEL_SDK_DISABLED": "true",
    }
    reminder: ClassVar[str] = "\n\n\nYou ONLY have access to the following tools"

    def said(self, words: Say) -> Turn:
        if not words.calls:
            return f"Thought: I now know the final answer\nFinal Answer: {words.text}"
        calls = ((call.name, call.arguments) for call in words.calls)
        spelt = ((name, given if isinstance(given, str) else json.dumps(given)) for name, given in calls)
        return "Thought: so be it\n" + "\n".join(f"Action: {n}\nAction Input: {g}" for n, g in spelt)

    def rounds(self, texts: Sequence[tuple[str, str]]) -> Iterator[tuple[Given, ...]]:
        for role, text in texts:
            found = re.search(r"^Action: (.*?)\n.*?^Observation: (.*)", text, re.DOTALL | re.MULTILINE)
            if role == "assistant" and found:
                yield (Given(id="", name=found[1], text=found[2].partition(self.reminder)[0]),)

    def offered(self, asked: Asked) -> dict[str, JSON]:
        said = "\n".join(content_of(message["content"]).text for message in asked.body["messages"])
        return dict.fromkeys(re.findall(r"^Tool Name: (\S+)$", said, re.MULTILINE))


class SpokenHarness(Harness):
    """A harness that says how its framework talks."""

    speech: ClassVar[Speech]


class SpokenProvider(Provider):
    """Plays a script in the framework's way, and tells what it was asked in the provider's."""

    def __init__(self, script: Script, speech: Speech) -> None:
        super().__init__(speech.script(script))
        self._speech = speech

    @property
    def environment(self) -> dict[str, str]:
        return super().environment | self._speech.environment

    @property
    def asked(self) -> list[Asked]:
        return [self._speech.heard(asked) for asked in super().asked]


@dataclass
class SpokenStage(Stage):
    """The same stage for a framework with a way of its own."""

    speech: Speech

    @contextmanager
    def model(self, script: Script) -> Generator[Provider]:
        with SpokenProvider(script, self.speech) as provider, self.monkeypatch.context() as patch:
            for name, value in provider.environment.items():
                patch.setenv(name, value)
            yield provider


SPEECH: dict[str, Speech] = {"smolagents": Observed(), "crewai": ReAct()}


def playing(name: str, script: Script) -> Provider:
    """A provider that plays the script to the framework of that adapter."""
    return SpokenProvider(script, SPEECH[name]) if name in SPEECH else Provider(script)


def spoken(stage: Stage) -> SpokenStage:
    """The stage for its harness, which is a spoken one."""
    assert isinstance(stage.harness, SpokenHarness)
    return SpokenStage(stage.bus, stage.harness, stage.monkeypatch, stage.harness.speech)


def _as_it_was(image: bytes) -> bytes:
    """The original picture: smolagents encodes pictures again, so the everyday one is known by its pixels."""
    from PIL import Image  # smolagents brings it, others do not

    from tests.servers.everyday import PNG

    ours, theirs = (Image.open(io.BytesIO(data)).convert("RGBA") for data in (PNG, image))
    return PNG if ours.size == theirs.size and ours.tobytes() == theirs.tobytes() else image


def scripted(asked: Asked) -> str | list[ToolCall]:
    """The model of the docs: it keeps a note, looks for it, and says what it found."""
    match len(asked.given):
        case 0:
            return [ToolCall("notes_add", {"text": "buy tea"})]
        case 1:
            return [ToolCall("notes_search", {"word": "tea"})]
        case _:
            return f"Found: {asked.given[-1].text}"
