"""What was said so far, and what goes along with the next message."""

import mimetypes
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    UserContent,
    UserPromptPart,
)

from toolbus.adapters.media import SOUNDS
from toolbus.adapters.prompts import SHOWN, parts, turns
from toolbus.adapters.pydantic_ai import shown
from toolbus.core.records import Block, Embedded, PromptMessage

# Bytes of these types are given as they are, also where they could be read as text.
_FILES = SHOWN | SOUNDS

File: TypeAlias = str | Path | bytes | Embedded | Sequence[Embedded]
"""A path, what a file holds, or what a resource holds, as `read_resource` returns it."""


@dataclass(slots=True, kw_only=True)
class Outgoing:
    """What the user says in one run: a prompt, and what waited to go along with it."""

    prompt: str | None
    along: list[UserContent] = field(default_factory=list[UserContent])
    kept: bool = False
    """Whether it is a part of the conversation by now."""

    @property
    def message(self) -> str | list[UserContent] | None:
        """As pydantic-ai takes it."""
        if not self.along:
            return self.prompt
        return [*self.along, self.prompt] if self.prompt else self.along


class Conversation:
    """The messages, in pydantic-ai's own types, and the parts that wait for the next one."""

    def __init__(self) -> None:
        self.messages: list[ModelMessage] = []
        self._waiting: list[UserContent] = []

    def outgoing(self, prompt: str | None) -> Outgoing:
        """The prompt with all that waited; ValueError if there is nothing to say or to go on from."""
        if prompt is None and not self._waiting and not self.messages:
            raise ValueError("nothing to send; pass a prompt, or add a file, a resource or a prompt first")
        said = Outgoing(prompt=prompt, along=self._waiting)
        self._waiting = []
        return said

    def went(self, said: Outgoing, messages: list[ModelMessage]) -> None:
        """Take over the messages of a run that came to its end."""
        self.messages = messages
        said.kept = True

    def broke_off(self, said: Outgoing, messages: list[ModelMessage], new: list[ModelMessage]) -> None:
        """Keep what was done in a run that failed: whole messages, if the model had answered at all.

        What a tool has changed must not be forgotten. But a prompt without an answer would be there twice
        when it is sent again, and half an answer would pass for a whole one.
        """
        while messages and _is_partial(messages[-1]):
            messages, new = messages[:-1], new[:-1]
        if any(isinstance(message, ModelResponse) for message in new):
            self.went(said, messages)

    def back(self, said: Outgoing) -> None:
        """Let what was not said wait again."""
        if not said.kept:
            self._waiting = [*said.along, *self._waiting]

    def add_file(self, file: File, name: str | None, mime_type: str | None) -> None:
        """Let a file go along: text as text, anything else as what it is."""
        if not isinstance(file, str | Path | bytes):
            blocks = [file] if isinstance(file, Embedded) else file
            self.add([_renamed(block, name, mime_type) for block in blocks])
            return
        data = file if isinstance(file, bytes) else Path(file).read_bytes()
        called = name or ("file" if isinstance(file, bytes) else Path(file).name)
        kind = mime_type or mimetypes.guess_type(called)[0]
        text = None if kind in _FILES else _text(data, kind)
        if text is None:
            block = Embedded(uri=called, data=data, mime_type=kind or "application/octet-stream")
        else:
            block = Embedded(uri=called, text=text, mime_type=kind or "text/plain")
        self.add([block])

    def add(self, blocks: Sequence[Block]) -> None:
        """Let blocks go along."""
        for block in blocks:
            self._waiting += map(shown, parts(block, _FILES))

    def use(self, messages: Sequence[PromptMessage]) -> None:
        """Take over the messages of a prompt; those of the user at its end wait for the next `send`."""
        for turn in turns(messages, _FILES):
            if turn.role == "user":
                self._waiting += map(shown, turn.parts)
                continue
            if self._waiting:
                self.messages.append(ModelRequest([UserPromptPart(self._waiting)]))
                self._waiting = []
            self.messages.append(ModelResponse([TextPart(turn.text)]))

    def saved(self) -> bytes:
        """The messages as JSON."""
        return ModelMessagesTypeAdapter.dump_json(self.messages, indent=2)

    def load(self, data: bytes) -> None:
        """Go on from saved messages; ValueError if they are none."""
        self.messages = ModelMessagesTypeAdapter.validate_json(data)


def _renamed(block: Embedded, name: str | None, mime_type: str | None) -> Embedded:
    return replace(block, uri=name or block.uri, mime_type=mime_type or block.mime_type)


def _is_partial(message: ModelMessage) -> bool:
    return isinstance(message, ModelResponse) and message.state != "complete"


def _text(data: bytes, kind: str | None) -> str | None:
    """What the bytes say; None if they are no text."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        # Called a text, but in some other encoding: most of it can be read.
        return data.decode(errors="replace") if kind and kind.startswith("text/") else None
