"""Internal names of `toolbus.core` that tests use."""

from toolbus.core.ask.approval import (
    ApprovalAnswer as ApprovalAnswer,
)
from toolbus.core.ask.approval import (
    ApprovalRequest as ApprovalRequest,
)
from toolbus.core.ask.forwarding import (
    ClientError as ClientError,
)
from toolbus.core.ask.forwarding import (
    Forwarding as Forwarding,
)
from toolbus.core.ask.interactions import (
    NO_HANDLERS as NO_HANDLERS,
)
from toolbus.core.ask.interactions import (
    Interactions as Interactions,
)
from toolbus.core.ask.question_router import (
    QuestionRouter as QuestionRouter,
)
from toolbus.core.fast_init import (
    with_fast_init as with_fast_init,
)
from toolbus.core.flag import (
    Flag as Flag,
)
from toolbus.core.operation.events import (
    BACKLOG as BACKLOG,
)
from toolbus.core.operation.events import (
    MOST_CHARACTERS as MOST_CHARACTERS,
)
from toolbus.core.operation.events import (
    CallEnded as CallEnded,
)
from toolbus.core.operation.events import (
    CallStarted as CallStarted,
)
from toolbus.core.operation.events import (
    CatalogChanged as CatalogChanged,
)
from toolbus.core.operation.events import (
    Event as Event,
)
from toolbus.core.operation.events import (
    EventStream as EventStream,
)
from toolbus.core.operation.events import (
    ListChanged as ListChanged,
)
from toolbus.core.operation.events import (
    Logged as Logged,
)
from toolbus.core.operation.events import (
    Progressed as Progressed,
)
from toolbus.core.operation.events import (
    Reason as Reason,
)
from toolbus.core.operation.events import (
    StateChanged as StateChanged,
)
from toolbus.core.operation.events import (
    ToolHeld as ToolHeld,
)
from toolbus.core.operation.events import (
    Warned as Warned,
)
from toolbus.core.operation.operation import (
    PROGRAM as PROGRAM,
)
from toolbus.core.operation.operation import (
    Caller as Caller,
)
from toolbus.core.operation.operation import (
    Decision as Decision,
)
from toolbus.core.operation.operation import (
    Failure as Failure,
)
from toolbus.core.operation.operation import (
    Observation as Observation,
)
from toolbus.core.operation.operation import (
    Operation as Operation,
)
from toolbus.core.operation.operation import (
    request_spec as request_spec,
)
from toolbus.core.operation.quota import (
    Quota as Quota,
)
from toolbus.core.plain_files import (
    UnreadableFile as UnreadableFile,
)
from toolbus.core.plain_files import (
    read_plain as read_plain,
)
from toolbus.core.text.canonical import (
    LARGEST as LARGEST,
)
from toolbus.core.text.canonical import (
    NotCanonical as NotCanonical,
)
from toolbus.core.text.canonical import (
    canonical as canonical,
)
from toolbus.core.text.canonical import (
    digest as digest,
)
from toolbus.core.text.display import (
    without_passwords as without_passwords,
)
from toolbus.core.text.encoding import (
    as_sent as as_sent,
)
from toolbus.core.text.encoding import (
    contents_json as contents_json,
)
from toolbus.core.text.lookalikes import (
    look as look,
)
from toolbus.core.text.lookalikes import (
    looks as looks,
)
from toolbus.core.text.lookalikes import (
    skeleton as skeleton,
)
from toolbus.core.text.stderr import (
    error_line as error_line,
)
from toolbus.core.text.stderr import (
    last_line as last_line,
)
from toolbus.core.text.stderr import (
    quoted as quoted,
)
from toolbus.core.text.text import (
    cleaned as cleaned,
)
from toolbus.core.text.text import (
    cleaned_json as cleaned_json,
)
from toolbus.core.values import (
    freshness as freshness,
)
from toolbus.core.values import (
    tool_schemas as tool_schemas,
)
from toolbus.core.values.apps import (
    is_app_only as is_app_only,
)
from toolbus.core.values.argument_restore import (
    ArgumentMap as ArgumentMap,
)
from toolbus.core.values.catalog import (
    Catalog as Catalog,
)
from toolbus.core.values.elicitation import (
    QUESTION as QUESTION,
)
from toolbus.core.values.elicitation import (
    Answer as Answer,
)
from toolbus.core.values.elicitation import (
    Pending as Pending,
)
from toolbus.core.values.errors import (
    INTERNAL_ERROR as INTERNAL_ERROR,
)
from toolbus.core.values.errors import (
    AuditFailed as AuditFailed,
)
from toolbus.core.values.errors import (
    CallRejected as CallRejected,
)
from toolbus.core.values.errors import (
    ConfigError as ConfigError,
)
from toolbus.core.values.errors import (
    StoreError as StoreError,
)
from toolbus.core.values.errors import (
    TokenStoreError as TokenStoreError,
)
from toolbus.core.values.errors import (
    TooManySessions as TooManySessions,
)
from toolbus.core.values.forms import (
    Form as Form,
)
from toolbus.core.values.login import (
    LoginHandler as LoginHandler,
)
from toolbus.core.values.raw_result import (
    RawResult as RawResult,
)
from toolbus.core.values.records import (
    Budget as Budget,
)
from toolbus.core.values.records import (
    Embedded as Embedded,
)
from toolbus.core.values.records import (
    Inventory as Inventory,
)
from toolbus.core.values.records import (
    JSONObject as JSONObject,
)
from toolbus.core.values.records import (
    Origin as Origin,
)
from toolbus.core.values.records import (
    Prompt as Prompt,
)
from toolbus.core.values.records import (
    PromptArgument as PromptArgument,
)
from toolbus.core.values.records import (
    ResourceTemplate as ResourceTemplate,
)
from toolbus.core.values.records import (
    ServerStatus as ServerStatus,
)
from toolbus.core.values.records import (
    Text as Text,
)
from toolbus.core.values.records import (
    ToolResult as ToolResult,
)
from toolbus.core.values.records import (
    ToolSpec as ToolSpec,
)
from toolbus.core.values.tool_definition import (
    tool_spec as tool_spec,
)
from toolbus.core.values.uri_templates import (
    expanded as expanded,
)
from toolbus.core.values.uri_templates import (
    variables as variables,
)
from toolbus.core.values.uri_templates import (
    within as within,
)
from toolbus.core.version import (
    version as version,
)
