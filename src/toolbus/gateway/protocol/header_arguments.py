"""Arguments that clients repeat in headers, as `x-mcp-header` in a schema asks: proxies route by them."""

from collections.abc import Mapping

from toolbus.core.values.records import JSONObject, ToolSpec
from toolbus.gateway.protocol.protocol_error import ProtocolError

_MOST_KNOWN = 10_000


class Mirroring:
    """Checks the `Mcp-Param-*` headers of tool calls."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[JSONObject, bool]] = {}
        """By tool: its schema, and whether it wants arguments in headers."""

    def check(self, spec: ToolSpec, arguments: JSONObject, headers: Mapping[str, str]) -> None:
        """`ProtocolError` if the headers do not match the arguments."""
        schema = spec.input_schema
        if not self._is_wanted(spec.name, schema):
            return
        from mcp.shared.inbound import validate_mcp_param_headers

        rejection = validate_mcp_param_headers(dict(schema), dict(arguments), headers)
        if rejection is not None:
            raise ProtocolError(rejection.code, rejection.message, rejection.data)

    def _is_wanted(self, name: str, schema: JSONObject) -> bool:
        known = self._known.get(name)
        if known is None or known[0] is not schema:
            from mcp.shared.inbound import find_invalid_x_mcp_header, x_mcp_header_map

            # Reading a schema takes longer than all the rest, and hardly any has such headers.
            wanted = find_invalid_x_mcp_header(schema) is None and bool(x_mcp_header_map(schema))
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            known = self._known[name] = schema, wanted
        return known[1]
