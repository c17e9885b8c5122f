"""Layers around a call: each sees the call on its way in and the result on its way out."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypeAlias

from toolbus.core.elicitation import Answer, Pending
from toolbus.core.events import OnLog
from toolbus.core.records import JSON, Progress, ToolResult, ToolSpec

OnInput: TypeAlias = Literal["ask", "suspend"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call on its way; a hook may pass a changed copy on."""

    spec: ToolSpec
    arguments: Mapping[str, JSON] = field(repr=False)
    timeout: float | None = None
    longest: float | None = None
    """As `timeouts.longest`: progress gives the call more time, up to this many seconds."""
    recover: float | None = None
    """As `timeouts.recover`: how long to wait for a lost server, counted from its loss."""
    on_progress: Progress | None = None
    on_log: OnLog | None = None
    on_input: OnInput = "ask"
    """What becomes of a question: it is asked, or it suspends the call until `resumed`."""
    resumed: "Resumed | None" = None
    detached: bool = False
    """Whether the call is left to the server if that makes a task of it."""
    id: int | None = None
    """The `id` of its events, if anyone listens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """A call that waited, and the answers it waited for."""

    pending: Pending
    answers: Mapping[str, Answer] = field(default_factory=dict[str, Answer])

    @classmethod
    def of(cls, pending: Pending, answers: Mapping[str, Answer] | Answer | None) -> "Resumed":
        """With the answers by the keys of the questions; ValueError if one is missing or does not fit."""
        questions = pending.questions
        if isinstance(answers, Answer):
            answers = dict.fromkeys(questions, answers) if len(questions) == 1 else {}
        given = answers or {}
        for key, question in questions.items():
            if key not in given:
                raise ValueError(f"there is no answer to {key!r}: {question.message}")
            if not isinstance(given[key], Answer):  # pyright: ignore[reportUnnecessaryIsInstance]  # users pass what they like
                kind = type(given[key]).__name__
                raise TypeError(f"the answer to {key!r} is an Answer, as of question.accept(), not {kind}")
            if given[key].action == "accept":
                if question.fault is not None:
                    raise ValueError(question.fault)
                question.accept(given[key].content)
        return cls(pending=pending, answers=given)


Next: TypeAlias = Callable[[Call], Awaitable[ToolResult]]
Hook: TypeAlias = Callable[[Call, Next], Awaitable[ToolResult]]


def onion(hooks: Sequence[Hook], core: Next) -> Next:
    """One function out of many layers; the first hook is the outermost."""
    for hook in reversed(hooks):
        core = partial(_layer, hook, core)
    return core


def _layer(hook: Hook, inner: Next, call: Call) -> Awaitable[ToolResult]:
    return hook(call, inner)
