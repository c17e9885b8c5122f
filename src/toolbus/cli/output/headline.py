"""A server in one line, with the reason below it if it is down; imports no part of the bus."""

from toolbus.cli.options import suggested
from toolbus.cli.output.screen import Screen, visible
from toolbus.core.text.display import counted
from toolbus.core.values.records import ServerStatus

STATE_STYLES = {
    "ready": "green",
    "failed": "red",
    "auth_required": "red",
    "retrying": "yellow",
    "idle": "dim",
}


def print_headline(screen: Screen, alias: str, status: ServerStatus, offers: str | None = None) -> None:
    """Print alias, state, protocol, and counts (by default of tools); below, why the server is down."""
    protocol = f"  {status.protocol} ({status.era})" if status.protocol else ""
    offered = f"  {offers or counted(status.tools, 'tool')}" if status.state == "ready" else ""
    state = (status.state, STATE_STYLES.get(status.state, ""))
    screen.line((alias, "bold"), "  ", state, (protocol, "dim"), (offered, "dim"))
    if status.error:
        # Without the server's name, which is in the line above.
        reason = status.error.removeprefix(f"server {alias!r}: ")
        screen.rows([[(visible(suggested(reason)), "red")]], max_lines=None)
