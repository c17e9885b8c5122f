"""Internal names of `toolbus.gateway` that tests use."""

from toolbus.gateway.access.admission import (
    Admission as Admission,
)
from toolbus.gateway.access.admission import (
    Refusal as Refusal,
)
from toolbus.gateway.access.admission import (
    RequestFacts as RequestFacts,
)
from toolbus.gateway.access.control import (
    FREE as FREE,
)
from toolbus.gateway.access.control import (
    LONGEST as LONGEST,
)
from toolbus.gateway.access.control import (
    MAX_ADDRESSES as MAX_ADDRESSES,
)
from toolbus.gateway.access.control import (
    MAX_LINES as MAX_LINES,
)
from toolbus.gateway.access.control import (
    AccessControl as AccessControl,
)
from toolbus.gateway.access.control import (
    Throttle as Throttle,
)
from toolbus.gateway.access.control import (
    access_of as access_of,
)
from toolbus.gateway.access.identity import (
    CredentialDenied as CredentialDenied,
)
from toolbus.gateway.access.identity import (
    CredentialHolder as CredentialHolder,
)
from toolbus.gateway.access.identity import (
    CredentialUndecided as CredentialUndecided,
)
from toolbus.gateway.access.issuer import (
    AGAIN_SECONDS as AGAIN_SECONDS,
)
from toolbus.gateway.access.issuer import (
    KEEP_SECONDS as KEEP_SECONDS,
)
from toolbus.gateway.access.issuer import (
    LAST_RESORT_SECONDS as LAST_RESORT_SECONDS,
)
from toolbus.gateway.access.issuer import (
    Issuer as Issuer,
)
from toolbus.gateway.access.keys import (
    LOOK_SECONDS as LOOK_SECONDS,
)
from toolbus.gateway.access.keys import (
    Keys as Keys,
)
from toolbus.gateway.access.shared_keys import (
    KEY as KEY,
)
from toolbus.gateway.access.shared_keys import (
    STALE_SECONDS as STALE_SECONDS,
)
from toolbus.gateway.access.shared_keys import (
    SharedKeys as SharedKeys,
)
from toolbus.gateway.access.stored_keys import (
    KeyExists as KeyExists,
)
from toolbus.gateway.access.stored_keys import (
    StoredKey as StoredKey,
)
from toolbus.gateway.access.stored_keys import (
    StoredKeys as StoredKeys,
)
from toolbus.gateway.access.stored_keys import (
    digest_of_key as digest_of_key,
)
from toolbus.gateway.access.stored_keys import (
    hour_of as hour_of,
)
from toolbus.gateway.access.tokens import (
    REMEMBER_OPAQUE as REMEMBER_OPAQUE,
)
from toolbus.gateway.access.tokens import (
    AccessTokens as AccessTokens,
)
from toolbus.gateway.access.views import (
    Views as Views,
)
from toolbus.gateway.access.views import (
    caller_of as caller_of,
)
from toolbus.gateway.calls.queue import (
    Busy as Busy,
)
from toolbus.gateway.calls.queue import (
    CallLimits as CallLimits,
)
from toolbus.gateway.calls.queue import (
    CallQueue as CallQueue,
)
from toolbus.gateway.calls.queue import (
    Slot as Slot,
)
from toolbus.gateway.gateway import (
    Gateway as Gateway,
)
from toolbus.gateway.http.accepting import (
    Acceptor as Acceptor,
)
from toolbus.gateway.http.app import (
    ASK_EVERY as ASK_EVERY,
)
from toolbus.gateway.http.app import (
    App as App,
)
from toolbus.gateway.http.app import (
    readiness as readiness,
)
from toolbus.gateway.http.limits import (
    HttpLimits as HttpLimits,
)
from toolbus.gateway.http.limits import (
    Refusals as Refusals,
)
from toolbus.gateway.http.protocol import (
    ConnectionLimits as ConnectionLimits,
)
from toolbus.gateway.http.protocol import (
    HttpConnection as HttpConnection,
)
from toolbus.gateway.http.request import (
    HttpRequest as HttpRequest,
)
from toolbus.gateway.http.run import (
    CannotListen as CannotListen,
)
from toolbus.gateway.http.run import (
    HttpServer as HttpServer,
)
from toolbus.gateway.http.run import (
    listening_socket as listening_socket,
)
from toolbus.gateway.http.run import (
    tls_context as tls_context,
)
from toolbus.gateway.http.workers import (
    ConnectionCounts as ConnectionCounts,
)
from toolbus.gateway.http.workers import (
    Workers as Workers,
)
from toolbus.gateway.metrics import (
    Metrics as Metrics,
)
from toolbus.gateway.protocol import (
    words as words,
)
from toolbus.gateway.protocol.exchange import (
    ClientExchange as ClientExchange,
)
from toolbus.gateway.protocol.naming import (
    ResourceOrigin as ResourceOrigin,
)
from toolbus.gateway.protocol.naming import (
    Uris as Uris,
)
from toolbus.gateway.protocol.naming import (
    fits_template as fits_template,
)
from toolbus.gateway.protocol.principal import (
    LOCAL as LOCAL,
)
from toolbus.gateway.protocol.principal import (
    Principal as Principal,
)
from toolbus.gateway.protocol.principal import (
    client_user as client_user,
)
from toolbus.gateway.protocol.principal import (
    subject_user as subject_user,
)
from toolbus.gateway.protocol.protocol_error import (
    ProtocolError as ProtocolError,
)
from toolbus.gateway.protocol.sessions import (
    ClientSession as ClientSession,
)
from toolbus.gateway.protocol.sessions import (
    ClientSessions as ClientSessions,
)
from toolbus.gateway.protocol.sessions import (
    RequestCancelled as RequestCancelled,
)
from toolbus.gateway.protocol.views import (
    MAX_PRINCIPALS as MAX_PRINCIPALS,
)
from toolbus.gateway.replicas import (
    relay as relay,
)
from toolbus.gateway.replicas.front import (
    ReplicaFront as ReplicaFront,
)
from toolbus.gateway.replicas.peers import (
    REPLICA as REPLICA,
)
from toolbus.gateway.replicas.peers import (
    Peers as Peers,
)
from toolbus.gateway.replicas.replicas import (
    Replicas as Replicas,
)
from toolbus.gateway.replicas.sessions import (
    SESSION as SESSION,
)
from toolbus.gateway.replicas.sessions import (
    SharedSessions as SharedSessions,
)
from toolbus.gateway.serve.front import (
    stored_key as stored_key,
)
from toolbus.gateway.serve.replica import (
    announced_host as announced_host,
)
from toolbus.gateway.serve.signals import (
    MARGIN as MARGIN,
)
from toolbus.gateway.serve.workers import (
    crowding as crowding,
)
from toolbus.gateway.settings import (
    GatewayLimits as GatewayLimits,
)
from toolbus.gateway.stdio import (
    serve_stdio as serve_stdio,
)
