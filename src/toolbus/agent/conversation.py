"""The messages so far, and the content waiting for the next message."""

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

from toolbus.adapters.media import AUDIO_TYPES, PROMPT_TYPES, message_parts, prompt_turns
from toolbus.adapters.pydantic_ai import user_content
from toolbus.core.values.records import Block, Embedded, PromptMessage

# Files of these types are sent unchanged, even if they could be decoded as text.
_FILE_TYPES = PROMPT_TYPES | AUDIO_TYPES

File: TypeAlias = str | Path | bytes | Embedded | Sequence[Embedded]
"""A path, the bytes of a file, or a resource as `read_resource` returns it."""


@dataclass(slots=True, kw_only=True)
class UserMessage:
    """The user message of one run: a prompt, and the content that was added to it."""

    prompt: str | None
    attached: list[UserContent] = field(default_factory=list[UserContent])
    committed: bool = False
    """Whether it is part of the conversation."""

    @property
    def message(self) -> str | list[UserContent] | None:
        if not self.attached:
            return self.prompt
        return [*self.attached, self.prompt] if self.prompt else self.attached


class Conversation:
    """The messages, in Pydantic AI's types, and the content waiting for the next one."""

    def __init__(self) -> None:
        self.messages: list[ModelMessage] = []
        self._pending: list[UserContent] = []

    def take(self, prompt: str | None) -> UserMessage:
        """Take the prompt and all pending content; ValueError if there is nothing to send."""
        if prompt is None and not self._pending and not self.messages:
            raise ValueError("nothing to send; pass a prompt, or add a file, a resource or a prompt first")
        outgoing = UserMessage(prompt=prompt, attached=self._pending)
        self._pending = []
        return outgoing

    def commit(self, outgoing: UserMessage, messages: list[ModelMessage]) -> None:
        self.messages = messages
        outgoing.committed = True

    def keep_partial(
        self, outgoing: UserMessage, messages: list[ModelMessage], new: list[ModelMessage]
    ) -> None:
        """Keep the complete messages of a failed run, if the model had responded at all.

        Changes made by tools must not be forgotten. But a prompt without a response would appear twice when
        it is resent. A partial response would look complete, and no prompt could follow calls without
        results.
        """
        while messages and _is_partial(messages[-1]):
            messages, new = messages[:-1], new[:-1]
        if any(isinstance(message, ModelResponse) for message in new):
            self.commit(outgoing, messages)

    def restore(self, outgoing: UserMessage) -> None:
        """Put content that was not sent back for the next message."""
        if not outgoing.committed:
            self._pending = [*outgoing.attached, *self._pending]

    def add_file(self, file: File, name: str | None, mime_type: str | None) -> None:
        """Add a file to the next message: text as text, other files unchanged."""
        if not isinstance(file, str | Path | bytes):
            blocks = [file] if isinstance(file, Embedded) else file
            self.add([_renamed(block, name, mime_type) for block in blocks])
            return
        data = file if isinstance(file, bytes) else Path(file).read_bytes()
        file_name = name or ("file" if isinstance(file, bytes) else Path(file).name)
        file_type = mime_type or mimetypes.guess_type(file_name)[0]
        text = None if file_type in _FILE_TYPES else _decoded(data, file_type)
        if text is None:
            block = Embedded(uri=file_name, data=data, mime_type=file_type or "application/octet-stream")
        else:
            block = Embedded(uri=file_name, text=text, mime_type=file_type or "text/plain")
        self.add([block])

    def add(self, blocks: Sequence[Block]) -> None:
        for block in blocks:
            self._pending += map(user_content, message_parts(block, _FILE_TYPES))

    def add_prompt(self, messages: Sequence[PromptMessage]) -> None:
        """Add the messages of a prompt; its last user messages wait for the next `send`."""
        for turn in prompt_turns(messages, _FILE_TYPES):
            if turn.role == "user":
                self._pending += map(user_content, turn.parts)
                continue
            if self._pending:
                self.messages.append(ModelRequest([UserPromptPart(self._pending)]))
                self._pending = []
            self.messages.append(ModelResponse([TextPart(turn.text)]))

    def to_json(self) -> bytes:
        return ModelMessagesTypeAdapter.dump_json(self.messages, indent=2)

    def load(self, data: bytes) -> None:
        """Continue from saved messages; ValueError if they are invalid."""
        self.messages = ModelMessagesTypeAdapter.validate_json(data)


def _renamed(block: Embedded, name: str | None, mime_type: str | None) -> Embedded:
    return replace(block, uri=name or block.uri, mime_type=mime_type or block.mime_type)


def _is_partial(message: ModelMessage) -> bool:
    """Whether a last message is cut short: in itself, or because its calls were not made."""
    return isinstance(message, ModelResponse) and (message.state != "complete" or bool(message.tool_calls))


def _decoded(data: bytes, mime_type: str | None) -> str | None:
    """The bytes as text; None if they are not text."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        # Text in some other encoding: most of it is readable.
        return data.decode(errors="replace") if mime_type and mime_type.startswith("text/") else None
