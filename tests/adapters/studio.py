"""A small server, in memory, whose prompts hold blocks of every kind, and what a model is to get of them."""

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import mcp_types as types
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.prompts.base import AssistantMessage, Message, UserMessage

from tests.servers.everyday import PNG, WAV
from tests.servers.gallery import PDF
from tests.wire import Asked
from tests.wire.asked import Entry, Wire
from tests.wire.chat import CHAT
from tests.wire.dialect import Dialect
from tests.wire.google import GOOGLE
from tests.wire.messages import MESSAGES
from tests.wire.responses import RESPONSES

_WIRES: dict[Wire, Dialect] = {dialect.wire: dialect for dialect in (CHAT, GOOGLE, MESSAGES, RESPONSES)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """The words of one side, until the other began."""

    role: str
    text: str
    images: tuple[bytes, ...] = ()
    files: tuple[bytes, ...] = ()


REVIEW = [
    Heard(
        role="user",
        text="Review the tea.\n[resource: memo://leaf.png, image/png, 70 B]\n"
        "[resource: memo://notes, text/plain]\nsteeped too long",
        images=(PNG, PNG),
    ),
    Heard(role="model", text="Which part of it?\n[image: image/png, 70 B]"),
    Heard(
        role="user",
        text="[resource: memo://blob, 2 B]\n[link: memo://greeting, greeting, text/plain, 5 B]\nAll of it.",
    ),
]
"""The text of the prompt `review` about the tea."""
ODD = [Heard(role="user", text="[image: application/octet-stream, 5 B]\nIs it there?")]
"""The text of the prompt `odd`."""
REPORT = [Heard(role="user", text="[memo://report.pdf]\nWhat does it say?", files=(PDF,))]
"""The text of the prompt `report`."""


def studio() -> MCPServer:
    """A fresh server."""
    server: MCPServer = MCPServer("studio")

    @server.prompt()
    def review(of: str) -> list[Message]:
        """Begin a review."""
        notes = types.TextResourceContents(
            uri="memo://notes", text="steeped too long", mime_type="text/plain"
        )
        link = types.ResourceLink(uri="memo://greeting", name="greeting", mime_type="text/plain", size=5)
        return [
            UserMessage(f"Review the {of}."),
            UserMessage(_image()),
            UserMessage(_blob("memo://leaf.png", PNG, "image/png")),
            UserMessage(types.EmbeddedResource(resource=notes)),
            AssistantMessage("Which part of it?"),
            AssistantMessage(_image()),
            UserMessage(_blob("memo://blob", b"\x00\x01")),
            UserMessage(link),
            UserMessage("All of it."),
        ]

    @server.prompt()
    def report() -> list[Message]:
        """Ask about a document."""
        return [
            UserMessage(_blob("memo://report.pdf", PDF, "application/pdf")),
            UserMessage("What does it say?"),
        ]

    @server.prompt()
    def odd() -> list[Message]:
        """A picture that is none, and a message that says nothing."""
        return [UserMessage(_image(b"*****")), UserMessage(" \n"), UserMessage("Is it there?")]

    @server.prompt()
    def listen() -> list[Message]:
        """Ask about a sound."""
        sound = types.AudioContent(data=base64.b64encode(WAV).decode("ascii"), mime_type="audio/wav")
        return [UserMessage(sound), UserMessage("What is it?")]

    return server


def heard(asked: Asked) -> list[Heard]:
    """The words of both sides, as they arrived; without the additions of frameworks."""
    entries = [entry for entry in _WIRES[asked.wire].read(asked.body).entries if entry.role != "system"]
    images = iter(asked.images)  # there, one that a framework encoded anew is as it was
    return [
        _joined(role, list(said), images) for role, said in groupby(entries, key=lambda entry: entry.role)
    ]


def _joined(role: str, said: list[Entry], images: Iterator[bytes]) -> Heard:
    texts = [entry.content.text for entry in said if entry.content.text]
    if role == "user":
        # Agno has a line for a picture without words, and a run of smolagents ends with its task.
        texts = [text.partition("\nNew task:\n")[0] for text in texts if text != "[image: image/png, 70 B]"]
    return Heard(
        role=role,
        text="\n".join(texts),
        images=tuple(next(images) for entry in said for _ in entry.content.images),
        files=tuple(file for entry in said for file in entry.content.files),
    )


def _image(data: bytes = PNG) -> types.ImageContent:
    return types.ImageContent(data=base64.b64encode(data).decode("ascii"), mime_type="image/png")


def _blob(uri: str, data: bytes, mime: str | None = None) -> types.EmbeddedResource:
    blob = base64.b64encode(data).decode("ascii")
    return types.EmbeddedResource(resource=types.BlobResourceContents(uri=uri, blob=blob, mime_type=mime))
