"""Internal names of `toolbus.agent` that tests use."""

from toolbus.agent.durable import lease as lease
from toolbus.agent.durable.execution.steps import Clock as Clock
from toolbus.agent.durable.lease import Leases as Leases
from toolbus.agent.durable.lease import Watch as Watch
from toolbus.agent.durable.lease import WorkerRow as WorkerRow
from toolbus.agent.durable.lease import host as host
from toolbus.agent.durable.lease import started as started
from toolbus.agent.durable.programs import Member as Member
from toolbus.agent.durable.programs import best as best
from toolbus.agent.durable.programs import better as better
from toolbus.agent.durable.programs import label_of as label_of
from toolbus.agent.durable.programs import lacking as lacking
from toolbus.agent.durable.questions import WaitingCall as WaitingCall
from toolbus.agent.durable.settings import JOURNAL_VERSION as JOURNAL_VERSION
from toolbus.agent.durable.store import dbos_private as dbos_private
from toolbus.agent.durable.store.engines import close_engine as close_engine
from toolbus.agent.durable.store.engines import new_engine as new_engine
from toolbus.agent.durable.store.store import RunStore as RunStore
from toolbus.agent.durable.worker import Worker as Worker
from toolbus.agent.events import TextDelta as TextDelta
from toolbus.agent.events import ToolCalled as ToolCalled
from toolbus.agent.events import ToolReturned as ToolReturned
from toolbus.agent.models import served_models as served_models
from toolbus.agent.tools import Toolbox as Toolbox
