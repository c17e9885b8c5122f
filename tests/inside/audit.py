"""Internal names of `toolbus.audit` that tests use."""

from toolbus.audit.calls import NO_END as NO_END
from toolbus.audit.calls import AuditedCall as AuditedCall
from toolbus.audit.calls import AuditQuery as AuditQuery
from toolbus.audit.calls import audited_calls as audited_calls
from toolbus.audit.chain import Chain as Chain
from toolbus.audit.history.read import history_file as history_file
from toolbus.audit.history.read import read_call as read_call
from toolbus.audit.history.read import read_calls as read_calls
from toolbus.audit.history.read import recorded_calls as recorded_calls
from toolbus.audit.history.read import recorded_states as recorded_states
from toolbus.audit.history.record import CallFilter as CallFilter
from toolbus.audit.history.record import RecordedCall as RecordedCall
from toolbus.audit.history.write import HistoryWriter as HistoryWriter
from toolbus.audit.lines import chains as chains
from toolbus.audit.lines import position_of as position_of
from toolbus.audit.read import Query as Query
from toolbus.audit.read import read_events as read_events
from toolbus.audit.trail import AuditTrail as AuditTrail
from toolbus.audit.trail import open_trail as open_trail
from toolbus.audit.verify import ChainReport as ChainReport
from toolbus.audit.verify import verify as verify
