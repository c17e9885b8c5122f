"""Durable runs: they survive the process that runs them, and their writes are not made twice."""

from toolbus.core.errors import ExtraMissing

try:
    import dbos

    del dbos  # only checks that it is installed, for a clear error
except ImportError as error:
    raise ExtraMissing("toolbus.agent.durable", "durable", str(error)) from error

from toolbus.agent.durable.events import DurableEvent, QuestionAnswered, QuestionAsked
from toolbus.agent.durable.info import NotWaiting, RunCancelled, RunFailed, RunInfo, RunNotFound, Step
from toolbus.agent.durable.run import DurableRun
from toolbus.agent.durable.runs import Runs
from toolbus.agent.durable.settings import Durable, RunStoreError
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
