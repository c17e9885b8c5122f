"""A run and its steps, as the store has them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

from dbos import WorkflowStatus

from toolbus.agent.durable.questions import WaitingCall
from toolbus.agent.durable.settings import JOURNAL_VERSION, named, queue_of
from toolbus.agent.durable.store.notes import Intent
from toolbus.core.values.records import JSON

Status: TypeAlias = Literal["queued", "running", "waiting", "done", "failed", "cancelled"]
OPEN: tuple[Status, ...] = ("queued", "running", "waiting")
_STATUS: dict[str, Status] = {
    "ENQUEUED": "queued",
    "DELAYED": "queued",
    "PENDING": "running",
    "SUCCESS": "done",
    "CANCELLED": "cancelled",
}


UNREADABLE = (AttributeError, KeyError, TypeError, ValueError, RecursionError)
"""Errors of reading a row that toolbus did not write."""
LONGEST_ERROR = 2_000
"""Characters of the error of a step."""
_PROBLEMS = ("unknown", "refused", "error", "failed", "retry")
"""The keys of a record of a call without a result."""
NOT_OURS = "its record in the store was not written by toolbus"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """A run as the store has it."""

    id: str
    agent: str
    status: Status
    prompt: str
    created: float
    """As seconds since the epoch, like `updated`."""
    updated: float
    worker: str | None = None
    """The worker that has it now, or had it last."""
    attempts: int = 0
    """The number of times that a worker took it."""
    question: WaitingCall | None = None
    """The question that it waits for."""
    answered: bool = False
    """Whether its question is answered, and no worker has taken the answer yet."""
    held: Mapping[str, str] = field(default_factory=dict[str, str])
    """The changed tool that its question is about, with the digest of its definition."""
    version: str | None = None
    """The version of its agent that it is pinned to; None if any version may continue it."""
    program: str = ""
    """The label of the tools of the workers that take it; empty if it waits for the first worker."""
    journal: str = JOURNAL_VERSION
    """The version of its record: only versions of toolbus with the same journal can continue it."""
    output: str | None = None
    """The text; of an object, as JSON."""
    structured: JSON = None
    """The object, if the run was to return one."""
    error: str | None = None
    error_kind: str = ""

    @property
    def is_foreign(self) -> bool:
        """Whether only workers of another version of toolbus can continue it."""
        return self.journal != JOURNAL_VERSION

    @property
    def named(self) -> str:
        """Its agent, and the version that it is pinned to: `orders`, or `orders@2`."""
        return named(self.queue)

    @property
    def queue(self) -> str:
        """The queue from which workers take it."""
        return queue_of(self.agent, self.version)

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self.status in OPEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One recorded step of a run."""

    number: int
    name: str
    """`offer`, `model`, `approval` or `call`; a call that was begun, and has no end yet, is an `intent`."""
    about: str
    """The tool of a call, or of an approval."""
    outcome: str
    """`done`, `failed`, `asked`, `refused`, `held`, `waits` for a person or a task, `begun`, or `unknown`."""
    at: float | None = None
    """The time of its end, in seconds since the epoch."""
    began: float | None = None
    tool: str = ""
    """The tool of a call, as the model calls it."""
    error: str = ""
    """The failure as the model reads it, cut if it is long."""
    model: str = ""
    """The model that was asked, as its provider calls it."""
    input_tokens: int | None = None
    """The tokens of a request to the model, if they were recorded."""
    output_tokens: int | None = None

    @classmethod
    def all(cls, rows: Iterable[Mapping[str, Any]], intents: Mapping[int, Intent]) -> "list[Step]":
        """The steps of a run, and the calls that were begun, without those that only wait."""
        recorded = {row["function_id"]: cls.of(row) for row in rows}
        begun = {
            number: cls(number=number, name="intent", about=intent.tool, outcome="begun", at=intent.at)
            for number, intent in intents.items()
            if number not in recorded
        }
        steps: list[Step] = []
        for _, step in sorted({**recorded, **begun}.items()):
            if step.name.startswith("DBOS."):
                continue
            if step.name == "call" and steps and steps[-1].outcome == "held":
                del steps[-1]  # its tool was accepted, or refused: this is the call
            steps.append(step)
        return steps

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Step":
        """One step."""
        output = _object(row["output"])
        response = _object(output.get("response"))
        usage = _object(response.get("usage"))
        return cls(
            number=row["function_id"],
            name=row["function_name"],
            about=output.get("tool") or output.get("about", ""),
            outcome=_outcome(row["function_name"], output, row["error"]),
            at=_seconds(row["completed_at_epoch_ms"]),
            began=_seconds(row.get("started_at_epoch_ms")),
            tool=str(output.get("name") or ""),
            error=_error(output, row["error"])[:LONGEST_ERROR],
            model=str(response.get("model_name") or ""),
            input_tokens=usage.get("input_tokens"),
            output_tokens=usage.get("output_tokens"),
        )


def run_info(row: WorkflowStatus, asked: WaitingCall | None, *, answered: bool) -> RunInfo:
    """A run; `asked` is the question that it shows, and `answered` whether that has an answer."""
    args: Sequence[Any] = row.input["args"] if isinstance(row.input, dict) else ()
    request: Mapping[str, Any] = args[0] if args else {}
    status = _STATUS.get(row.status, "failed")
    error = row.error
    question = None if answered else asked
    message = None if error is None else str(error)
    if isinstance(error, str):  # it could not be read
        message = NOT_OURS
    if row.status == "MAX_RECOVERY_ATTEMPTS_EXCEEDED":
        message = f"{row.recovery_attempts} workers ended while they had it"
    output = _object(row.output)
    journal, _, program = (row.app_version or JOURNAL_VERSION).partition("+")
    return RunInfo(
        id=row.workflow_id,
        agent=request.get("agent", ""),
        status="waiting" if question is not None else status,
        prompt=_prompt_text(request.get("prompt")),
        created=(row.created_at or 0) / 1000,
        updated=(row.updated_at or 0) / 1000,
        worker=row.executor_id or None,
        attempts=row.recovery_attempts or 0,
        question=question,
        answered=answered,
        held={} if question is None else question.held,
        version=request.get("version"),
        program=program,
        journal=journal,
        output=output.get("output"),
        structured=output.get("structured"),
        error=message,
        error_kind="" if error is None else getattr(error, "kind", type(error).__name__),
    )


def unreadable_info(row: WorkflowStatus) -> RunInfo:
    """A run with a row that toolbus did not write."""
    return RunInfo(
        id=row.workflow_id,
        agent="",
        status=_STATUS.get(row.status, "failed"),
        prompt="",
        created=(row.created_at or 0) / 1000,
        updated=(row.updated_at or 0) / 1000,
        error=NOT_OURS,
    )


def _outcome(name: str, output: Mapping[str, Any], error: object) -> str:
    if error is not None:
        return "failed"
    if name == "approval":
        return "asked" if "ask" in output else "refused" if output.get("denied") else "done"
    if name != "call":
        return "done"
    for key, outcome in (
        ("unknown", "unknown"),
        ("refused", "refused"),
        ("pending", "waits"),
        ("held", "held"),
    ):
        if key in output:
            return outcome
    failed = any(key in output for key in ("error", "failed", "retry")) or output.get("result", {}).get(
        "is_error"
    )
    return "failed" if failed else "done"


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _error(output: Mapping[str, Any], error: object) -> str:
    """The failure of a step; empty if it succeeded."""
    if error is not None:
        return str(error)
    for key in _PROBLEMS:
        if key in output:
            return str(output[key])
    result = _object(output.get("result"))
    if not result.get("is_error"):
        return ""
    blocks = cast("list[Any]", result.get("content") or [])
    texts = [_object(block).get("text") for block in blocks]
    return "\n".join(text for text in texts if isinstance(text, str))


def _prompt_text(prompt: Any) -> str:
    """The texts of a prompt, without files."""
    parts = cast("list[Any]", prompt) if isinstance(prompt, list) else [prompt]
    return "\n".join(part for part in parts if isinstance(part, str))


def _object(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
