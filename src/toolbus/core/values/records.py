"""The values passed between the stages: plain and frozen, independent of the SDK and the network."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, ClassVar, Literal, TypeAlias

from toolbus.core.fast_init import with_fast_init
from toolbus.core.text.display import mime_bundle, result_line
from toolbus.core.values.apps import is_app_only
from toolbus.core.values.argument_restore import EMPTY, ArgumentMap
from toolbus.core.values.elicitation import Pending
from toolbus.core.values.errors import ToolFailed
from toolbus.core.values.raw_result import RawResult
from toolbus.core.values.skills import Skill
from toolbus.schema.values import JSON, JSONObject, entries_of

Progress: TypeAlias = Callable[[float, float | None, str | None], Awaitable[None] | None]
"""Receives progress, total and message."""
LogLevel: TypeAlias = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
Era: TypeAlias = Literal["modern", "legacy"]
State: TypeAlias = Literal["idle", "connecting", "ready", "retrying", "auth_required", "failed", "closed"]

OWN = "toolbus"
"""The server in the origin of the bus's own tools; no server may have it as its alias."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a tool: the server's alias and the server's own name for the tool."""

    server: str
    tool: str

    def __str__(self) -> str:
        return f"{self.server}/{self.tool}"


RECEIVED = "received"
"""The first step in a tool's history, if something in its definition was invalid and ignored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change that a shaper made to a tool: the fields it changed."""

    shaper: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultShape:
    """The part of a tool's results that a model gets; a program gets all of it."""

    keep: tuple[str, ...] = ()
    """Paths of the kept parts of a JSON result, such as `labels.name`; empty means all."""
    table: bool = False
    """Whether records become a table, if that is smaller."""
    files: str | None = None
    """The folder in which pictures, audio and other binary content are kept instead."""


@with_fast_init
@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """One tool as a model should see it; calls go to its `origin`."""

    name: str
    origin: Origin
    description: str = ""
    title: str | None = None
    input_schema: JSONObject = field(default_factory=lambda: {"type": "object"})
    output_schema: JSONObject | None = None
    annotations: JSONObject = field(default_factory=lambda: EMPTY)
    """The server's hints as sent: hints, not guarantees; `reads_only` says whether they may be relied on."""
    options: JSONObject = field(default_factory=lambda: EMPTY)
    """Provider options, by provider."""
    meta: JSONObject = field(default_factory=lambda: EMPTY)
    extras: JSONObject = field(default_factory=lambda: EMPTY)
    """Its `icons` and `execution`, as sent."""
    maps: tuple[ArgumentMap, ...] = ()
    """The steps that map arguments back to the server's, the last one first."""
    server_schema: JSONObject | None = None
    """The schema of the server, if it is not `input_schema`."""
    route: str = "tools/call"
    """The MCP method that a call sends; even resources and prompts may be tools."""
    history: tuple[Change, ...] = ()
    """The changes made since the server listed it."""
    trusted: bool = False
    """Whether its annotations may be relied on: the config trusts its server, or has `hints` for it."""
    repeatable: bool = False
    """Whether the config declares that repeating a call is safe."""
    result: ResultShape | None = None
    """The part of its results that a model gets; by default all."""
    definitions: dict[str, Any] = field(default_factory=dict[str, Any], init=False, repr=False, compare=False)
    """A cache of its definition in each dialect; filled by `toolbus.shape.dialects`."""

    @property
    def reads_only(self) -> bool:
        """Whether the config, or a server that it trusts, marks it as read-only, and not as destructive."""
        return self.trusted and marks_read_only(self.annotations)

    @property
    def is_app_only(self) -> bool:
        """Whether its server hides it from models: only its user interface calls it (MCP Apps)."""
        return bool(self.meta) and is_app_only(self.meta)

    def to_server(self, arguments: JSONObject) -> JSONObject:
        """The arguments for the server."""
        for step in reversed(self.maps):
            arguments = step.to_server(arguments)
        return arguments

    def renamed(self, name: str, *past: Change) -> "ToolSpec":
        """The same tool under another name; faster, and in less memory, than by `replace`."""
        return ToolSpec(
            name=name,
            origin=self.origin,
            description=self.description,
            title=self.title,
            input_schema=self.input_schema,
            output_schema=self.output_schema,
            annotations=self.annotations,
            options=self.options,
            meta=self.meta,
            extras=self.extras,
            maps=self.maps,
            server_schema=self.server_schema,
            route=self.route,
            history=past or self.history,
            trusted=self.trusted,
            repeatable=self.repeatable,
            result=self.result,
        )


def marks_read_only(annotations: JSONObject) -> bool:
    """Whether the server marks a tool as read-only; a tool marked destructive as well is not."""
    return annotations.get("readOnlyHint") is True and annotations.get("destructiveHint") is not True


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """Something that clients can read from a server, identified by its URI."""

    server: str
    uri: str
    name: str
    title: str | None = None
    description: str = ""
    mime_type: str | None = None
    size: int | None = None
    extras: JSONObject = field(default_factory=lambda: EMPTY)
    """Its `annotations`, `icons` and `_meta`, as sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceTemplate:
    """A family of resources whose URIs follow one pattern."""

    server: str
    uri_template: str
    name: str
    title: str | None = None
    description: str = ""
    mime_type: str | None = None
    extras: JSONObject = field(default_factory=lambda: EMPTY)
    """Like the `extras` of a resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptArgument:
    """One argument of a prompt."""

    name: str
    description: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A message template that a server offers."""

    server: str
    name: str
    title: str | None = None
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()
    extras: JSONObject = field(default_factory=lambda: EMPTY)
    """Its `icons` and `_meta`, as sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """A tool that was left out: its definition is invalid, or a shaper rejected it."""

    tool: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class Inventory:
    """A server's current offer. Tools have the server's own names; `stale` means that a list failed and the
    last good one is kept."""

    tools: tuple[ToolSpec, ...] = ()
    resources: tuple[Resource, ...] = ()
    templates: tuple[ResourceTemplate, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    skills: tuple[Skill, ...] = ()
    quarantined: tuple[Quarantined, ...] = ()
    instructions: str | None = None
    notes: tuple[str, ...] = ()
    pages: int = 0
    stale: bool = False


@with_fast_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A text block."""

    text: str
    annotations: JSONObject | None = None
    meta: JSONObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A picture, decoded."""

    data: bytes = field(repr=False)
    mime_type: str
    annotations: JSONObject | None = None
    meta: JSONObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Audio:
    """A sound, decoded."""

    data: bytes = field(repr=False)
    mime_type: str
    annotations: JSONObject | None = None
    meta: JSONObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLink:
    """A link to a resource that the client can read."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: JSONObject | None = None
    meta: JSONObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """An embedded resource: `text`, or `data` for a blob."""

    uri: str
    text: str | None = None
    data: bytes | None = field(default=None, repr=False)
    mime_type: str | None = None
    annotations: JSONObject | None = None
    meta: JSONObject | None = None


Block: TypeAlias = Text | Image | Audio | ResourceLink | Embedded
"""A content block of a result or a prompt."""


@with_fast_init
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ToolResult:
    """The complete result of a tool; `is_error` marks a failure.

    ```python
    result = await bus.call("notes_search", {"word": "tea"})
    print(result.is_error, result.text)  # False nothing found
    print(result.raise_for_error().content)  # (Text(text='nothing found', annotations=None, meta=None),)
    ```
    """

    content: tuple[Block, ...] = ()
    structured: JSON = None
    is_error: bool = False
    meta: JSONObject = field(default_factory=dict[str, JSON])
    pending: Pending | None = None
    """Set if there is no result yet: the call waits for an answer, and can be resumed."""
    tool: str | None = field(default=None, compare=False)
    """The public name of the tool, if the call failed."""
    value: object = field(default=None, compare=False)
    """The value that a script ends with; for other requests a `PromptResult`, `Completion` or `TaskState`."""
    _received: RawResult | None = field(default=None, compare=False)
    """As the server sent it, if it is for an MCP client."""
    sent: bool = field(default=True, compare=False)
    """False if nothing was sent: wrong arguments, a call that was denied, a server that is down."""

    @property
    def text(self) -> str:
        """The text blocks, joined by line breaks."""
        return "\n".join(block.text for block in self.content if isinstance(block, Text))

    @property
    def data(self) -> JSON:
        """The structured content; without it the text read as JSON, or else the text itself."""
        if self.structured is not None:
            return self.structured
        try:
            return json.loads(self.text, parse_constant=_no_json)
        except (ValueError, RecursionError):  # nested too deeply
            return self.text

    @property
    def images(self) -> tuple[Image, ...]:
        """The pictures."""
        return tuple(block for block in self.content if isinstance(block, Image))

    def raise_for_error(self) -> "ToolResult":
        """Itself; raises `ToolFailed` if the tool reported an error, or if nothing was sent to it."""
        if self.is_error:
            raise ToolFailed(self.tool, self.text, sent=self.sent)
        return self

    def __repr__(self) -> str:
        others = [type(block).__name__.lower() for block in self.content if not isinstance(block, Text)]
        state = "error" if self.is_error else "pending" if self.pending else ""
        return result_line(self.text, self.structured, others, state)

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """For notebooks: text, and pictures as pictures."""
        text = f"[error] {self.text}" if self.is_error and self.text else self.text
        blocks = (block for block in self.content if isinstance(block, Image | Embedded))
        return mime_bundle(
            text, repr(self), [(b.mime_type, b.data) for b in blocks if b.mime_type and b.data]
        )

    @classmethod
    def failure(cls, message: str, tool: str | None = None, *, sent: bool = True) -> "ToolResult":
        """An error result; `sent` is False if the call did not reach a server."""
        return cls(content=(Text(text=f"MCP error: {message}"),), is_error=True, tool=tool, sent=sent)


def _no_json(constant: str) -> JSON:
    raise ValueError(f"{constant} is not JSON")


# Not a Python function, because every call of the gateway is here.
received_of: Callable[[ToolResult], RawResult | None] = attrgetter("_received")
"""The result as the server sent it, if it is for an MCP client."""


def with_notes(result: ToolResult, **facts: JSON) -> ToolResult:
    """The same result with these facts in its meta, under `toolbus`."""
    # A server may send anything under this key.
    ours = {**entries_of(result.meta.get("toolbus")), **facts}
    return replace(result, meta={**result.meta, "toolbus": ours})


def pending_result(pending: Pending) -> ToolResult:
    """The result of a call that waits for an answer."""
    return ToolResult(content=(Text(text=str(pending)),), pending=pending)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The length limits of a result's text for a model; the smaller one applies, None means no limit."""

    characters: int | None = None
    tokens: int | None = None

    SMALLEST: ClassVar[int] = 200
    """In characters: room for the note about the omitted text."""


# Claude Code refuses more than 25,000 tokens and warns from 10,000 on (MAX_MCP_OUTPUT_TOKENS; see
# developers.figma.com/docs/figma-mcp-server/mcp-clients-issues); opencode (anomalyco/opencode#22565) and pi
# (earendil-works/pi#134) cut at 50 kB. Codex cut at 10 kB, and users missed whole files (openai/codex#6544).
DEFAULT_BUDGET = Budget(characters=40_000, tokens=10_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptMessage:
    """One message of a prompt."""

    role: Literal["user", "assistant"]
    content: Block


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptResult:
    """A prompt with its arguments filled in."""

    messages: tuple[PromptMessage, ...]
    description: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """Suggested values for an argument."""

    values: tuple[str, ...] = ()
    total: int | None = None
    has_more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskState:
    """The state of a task: a call that a server runs in the background."""

    id: str
    status: Literal["working", "input_required", "completed", "failed", "cancelled"]
    message: str | None = None
    poll_after: float = 1.0
    """Seconds to wait between polls."""
    requests: JSONObject = field(default_factory=lambda: EMPTY)
    """Its requests for input, by its own keys."""
    result: ToolResult | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """The current status of one link."""

    state: State
    era: Era | None = None
    protocol: str | None = None
    tools: int = 0
    restarts: int = 0
    error: str | None = None
    since: float = 0.0
    """The time the state was entered, as seconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The result of a health probe over one live link."""

    ok: bool
    latency_ms: float | None = None
    error: str | None = None
