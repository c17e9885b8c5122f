"""Internal names of `toolbus.connect` that tests use."""

from toolbus.connect import (
    link as link,
)
from toolbus.connect import (
    read_cache as read_cache,
)
from toolbus.connect.auth import (
    loopback as loopback,
)
from toolbus.connect.auth.browser import (
    has_browser as has_browser,
)
from toolbus.connect.auth.browser import (
    is_link as is_link,
)
from toolbus.connect.auth.browser import (
    open_browser as open_browser,
)
from toolbus.connect.auth.credentials import (
    HttpRefusal as HttpRefusal,
)
from toolbus.connect.auth.failure import (
    Unreachable as Unreachable,
)
from toolbus.connect.auth.fetch import (
    Fetch as Fetch,
)
from toolbus.connect.auth.identity import (
    LinkOwner as LinkOwner,
)
from toolbus.connect.auth.loopback import (
    MAX_CONNECTIONS as MAX_CONNECTIONS,
)
from toolbus.connect.auth.loopback import (
    CallbackUnavailable as CallbackUnavailable,
)
from toolbus.connect.auth.loopback import (
    Loopback as Loopback,
)
from toolbus.connect.auth.oauth.sign_in import (
    OAuthClient as OAuthClient,
)
from toolbus.connect.busy import (
    BUSY as BUSY,
)
from toolbus.connect.busy import (
    wait_for_room as wait_for_room,
)
from toolbus.connect.deadlines import (
    Deadlines as Deadlines,
)
from toolbus.connect.http import (
    connection as connection,
)
from toolbus.connect.http.certificate import (
    certificate_of as certificate_of,
)
from toolbus.connect.http.events import (
    EventParser as EventParser,
)
from toolbus.connect.http.events import (
    ServerSentEvent as ServerSentEvent,
)
from toolbus.connect.http.proxy import (
    Proxy as Proxy,
)
from toolbus.connect.http.proxy import (
    environment_proxy as environment_proxy,
)
from toolbus.connect.http.url import (
    parse_url as parse_url,
)
from toolbus.connect.link import (
    ON_DEMAND_EVERY as ON_DEMAND_EVERY,
)
from toolbus.connect.link import (
    Link as Link,
)
from toolbus.connect.opening import (
    backoff as backoff,
)
from toolbus.connect.opening.attempt import (
    Attempt as Attempt,
)
from toolbus.connect.opening.backoff import (
    Backoff as Backoff,
)
from toolbus.connect.opening.diagnostics import (
    Diagnostics as Diagnostics,
)
from toolbus.connect.opening.early import (
    resolve as resolve,
)
from toolbus.connect.opening.failure import (
    connect_failure as connect_failure,
)
from toolbus.connect.opening.process_hints import (
    missing_variables as missing_variables,
)
from toolbus.connect.opening.process_hints import (
    old_sdk as old_sdk,
)
from toolbus.connect.sandbox.bubblewrap import (
    find_bubblewrap as find_bubblewrap,
)
from toolbus.connect.sandbox.environment import (
    divided as divided,
)
from toolbus.connect.sandbox.environment import (
    home_folder as home_folder,
)
from toolbus.connect.sandbox.launchers import (
    NotLaunchable as NotLaunchable,
)
from toolbus.connect.sandbox.launchers import (
    local_program as local_program,
)
from toolbus.connect.sandbox.launchers import (
    package_of as package_of,
)
from toolbus.connect.sdk import (
    wire as wire,
)
from toolbus.connect.sdk.client import (
    memory_connector as memory_connector,
)
from toolbus.connect.sdk.client import (
    without_span as without_span,
)
from toolbus.connect.sdk.output_check import (
    OutputCheck as OutputCheck,
)
from toolbus.connect.session import (
    ServerSession as ServerSession,
)
from toolbus.connect.transports import (
    http as http,
)
from toolbus.connect.transports.http import (
    MAX_REFUSALS as MAX_REFUSALS,
)
from toolbus.connect.transports.process.guarded import (
    guard as guard,
)
from toolbus.connect.transports.process.process import (
    SAFE_VARIABLES as SAFE_VARIABLES,
)
from toolbus.connect.transports.process.start import (
    helpers as helpers,
)
from toolbus.connect.transports.process.turns import (
    FEWEST as FEWEST,
)
from toolbus.connect.transports.process.turns import (
    PER_CORE as PER_CORE,
)
from toolbus.connect.transports.streamable import (
    streamable_http_peer as streamable_http_peer,
)
from toolbus.connect.transports.wire import (
    incoming as incoming,
)
from toolbus.connect.transports.wire.jsonrpc import (
    JsonRpcPeer as JsonRpcPeer,
)
from toolbus.connect.transports.wire.jsonrpc import (
    ResponseFuture as ResponseFuture,
)
from toolbus.connect.transports.wire.messages import (
    encoded_request as encoded_request,
)
from toolbus.connect.transports.wire.wire_error import (
    WireError as WireError,
)
