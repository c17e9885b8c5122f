"""The names of the conventions for MCP, and our own.

Written down here because the conventions have moved between packages, and are still under development.
"""

SCOPE = "toolbus"
"""The name of our tracer and meter."""

METHOD = "mcp.method.name"
PROTOCOL = "mcp.protocol.version"
SESSION = "mcp.session.id"
RESOURCE = "mcp.resource.uri"
REQUEST_ID = "jsonrpc.request.id"
STATUS_CODE = "rpc.response.status_code"
ERROR_TYPE = "error.type"
GEN_AI_OPERATION = "gen_ai.operation.name"
EXECUTE_TOOL = "execute_tool"
INVOKE_AGENT = "invoke_agent"
AGENT = "gen_ai.agent.name"
TOOL = "gen_ai.tool.name"
PROMPT = "gen_ai.prompt.name"
ARGUMENTS = "gen_ai.tool.call.arguments"
RESULT = "gen_ai.tool.call.result"
VARIABLE = "gen_ai.prompt.variable."
TRANSPORT = "network.transport"
NETWORK_PROTOCOL = "network.protocol.name"
NETWORK_VERSION = "network.protocol.version"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"

SERVER = "toolbus.server"
"""The alias of the server; the conventions have no name for it."""
PUBLIC_TOOL = "toolbus.tool"
"""The name of the tool in the catalog, if it differs from the server's own."""
OUTCOME = "toolbus.outcome"
"""`ok`, `pending`, or the reason of a failure as in events: `refused`, `timed_out` and so on."""
ASKED = "toolbus.asked_ms"
"""Milliseconds in which a person was asked; no part of the duration."""
ATTEMPTS = "toolbus.attempts"
"""The number of times that the request was sent, if more than once."""
CALLER = "toolbus.caller"
"""The entry point of the call: an adapter, the command line, the gateway."""
RUN = "toolbus.run"
"""The id of a durable run."""
PRINCIPAL = "toolbus.principal"
"""The client of the gateway, by the name of its key or of its token."""

TOOL_ERROR = "tool_error"
OTHER = "_OTHER"
"""The conventions' value for anything outside a known set."""

CLIENT_OPERATION = "mcp.client.operation.duration"
CLIENT_SESSION = "mcp.client.session.duration"
SERVER_OPERATION = "mcp.server.operation.duration"
SERVER_SESSION = "mcp.server.session.duration"
RESTARTS = "toolbus.server.restarts"
BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)

IN_METRICS = frozenset(
    {
        *(METHOD, PROTOCOL, STATUS_CODE, ERROR_TYPE, GEN_AI_OPERATION, TOOL, PROMPT),
        *(TRANSPORT, NETWORK_PROTOCOL, NETWORK_VERSION, SERVER_ADDRESS, SERVER_PORT),
        *(SERVER, OUTCOME),
    }
)
"""The attributes of a span that its duration also has: each has a low cardinality."""

KNOWN_METHODS = frozenset(
    {
        *("initialize", "server/discover", "ping", "logging/setLevel", "completion/complete"),
        *("tools/list", "tools/call", "prompts/list", "prompts/get"),
        *("resources/list", "resources/templates/list", "resources/read"),
        *("resources/subscribe", "resources/unsubscribe", "subscriptions/listen"),
        *("tasks/get", "tasks/update", "tasks/cancel", "tasks/result", "tasks/list"),
        *("elicitation/create", "sampling/createMessage", "roots/list"),
        *("notifications/initialized", "notifications/cancelled", "notifications/progress"),
        *("notifications/roots/list_changed",),
    }
)
"""The methods of clients and servers; a client may send anything."""
