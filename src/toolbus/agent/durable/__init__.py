"""Durable runs: they survive the process that runs them, and their writes are not made twice."""

from typing import TYPE_CHECKING, Any

from toolbus.core.operation.run_errors import (
    NotWaiting,
    RunCancelled,
    RunFailed,
    RunNotFound,
    RunStoreError,
)
from toolbus.core.values.errors import ExtraMissing

try:
    import dbos

    del dbos  # only checks that it is installed, for a clear error
except ImportError as error:
    raise ExtraMissing("toolbus.agent.durable", "durable", str(error)) from error

from toolbus.agent.durable.info import RunInfo, Step
from toolbus.agent.durable.questions import DurableEvent, QuestionAnswered, QuestionAsked
from toolbus.agent.durable.runs import DurableRun, Runs
from toolbus.agent.durable.settings import Durable

if TYPE_CHECKING:
    from toolbus.agent.tools import repeatable

__all__ = [
    "Durable",
    "DurableEvent",
    "DurableRun",
    "NotWaiting",
    "QuestionAnswered",
    "QuestionAsked",
    "RunCancelled",
    "RunFailed",
    "RunInfo",
    "RunNotFound",
    "RunStoreError",
    "Runs",
    "Step",
    "repeatable",
]


def __getattr__(name: str) -> Any:
    if name != "repeatable":
        raise AttributeError(f"module 'toolbus.agent.durable' has no attribute {name!r}")
    from toolbus.agent.tools import repeatable  # on first use: it takes Pydantic AI, which `Runs` does not

    globals()[name] = repeatable
    return repeatable


def __dir__() -> list[str]:
    return __all__
