"""A server in one line, with the reason below it if it is down; imports nothing of the bus."""

from rich.text import Text

from toolbus.cli.output.screen import Screen, visible
from toolbus.cli.suggested import suggested
from toolbus.core.text.display import counted
from toolbus.core.values.records import ServerStatus

STATE_STYLES = {
    "ready": "green",
    "failed": "red",
    "auth_required": "red",
    "retrying": "yellow",
    "idle": "dim",
}


def headline(alias: str, status: ServerStatus, offers: str | None = None) -> Text:
    """A server in one line: alias, state, protocol, and counts (by default of tools)."""
    line = Text.assemble((alias, "bold"), "  ", (status.state, STATE_STYLES.get(status.state, "")))
    if status.protocol:
        line.append(f"  {status.protocol} ({status.era})", "dim")
    if status.state == "ready":
        line.append(f"  {offers or counted(status.tools, 'tool')}", "dim")
    return line


def print_headline(screen: Screen, alias: str, status: ServerStatus, offers: str | None = None) -> None:
    """Print the server's headline, and below it why it is down."""
    screen.print(headline(alias, status, offers))
    if status.error:
        # Without the server's name, which is in the line above.
        reason = status.error.removeprefix(f"server {alias!r}: ")
        screen.rows([[Text(visible(suggested(reason)), style="red")]], max_lines=None)
