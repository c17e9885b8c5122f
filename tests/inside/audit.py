"""Internal names of `toolbus.audit` that tests use."""

from toolbus.audit.chain import Chain as Chain
from toolbus.audit.history.read import history_file as history_file
from toolbus.audit.history.record import RecordedCall as RecordedCall
from toolbus.audit.history.write import HistoryWriter as HistoryWriter
from toolbus.audit.lines import chains as chains
from toolbus.audit.lines import position_of as position_of
from toolbus.audit.read import Query as Query
from toolbus.audit.read import read_events as read_events
from toolbus.audit.trail import AuditTrail as AuditTrail
from toolbus.audit.trail import open_trail as open_trail
from toolbus.audit.usage import OTHERS as OTHERS
from toolbus.audit.usage import Durations as Durations
from toolbus.audit.usage import UsageCounts as UsageCounts
from toolbus.audit.usage import UsedCall as UsedCall
from toolbus.audit.usage import calls_in as calls_in
from toolbus.audit.verify import ChainReport as ChainReport
from toolbus.audit.verify import verify as verify
from toolbus.config.settings.audit import History as History
