"""`toolbus status`: what the background bus of a config does."""

from toolbus.cli.command import CommandResult, Invocation, command
from toolbus.cli.errors import FAILED


@command
def status(own: Invocation) -> CommandResult:
    """Show the servers in the background; exit 1 if none run."""
    from toolbus.background.inquiry import facts_of
    from toolbus.cli.output.bus_status import background_config, print_facts
    from toolbus.cli.output.screen import short_path

    screen, file = own.screen, background_config(own.settings)
    facts = facts_of(file, own.settings.profile)

    def print_status() -> None:
        if facts is None:
            screen.note(f"no background bus for {short_path(file)}; start one with 'toolbus up'")
        else:
            print_facts(screen, facts)

    document = {"running": facts is not None, "config": str(file), **(facts or {})}
    return CommandResult(document, print_status, FAILED if facts is None else 0)
