"""`toolbus console`: open the page of a running gateway or background bus in the browser."""

from typing import Annotated

import typer

from toolbus.cli.command import CommandResult, Invocation, command


@command
def console(
    own: Invocation,
    no_browser: Annotated[
        bool,
        typer.Option(
            "--no-browser",
            help="Do not open a browser; only print the URL. It can be opened once, within 10 minutes.",
        ),
    ] = False,
    print_only: Annotated[bool, typer.Option("--print", hidden=True)] = False,  # the old name
) -> CommandResult:
    """Open the web console of a gateway or background bus.

    It shows servers, tools, calls and questions, and is served by 'toolbus serve' and 'toolbus up'. The
    URL contains a token, which lets one browser in.
    """
    import asyncio

    from toolbus.cli.commands.gateway.running_console import console_token, running_console
    from toolbus.connect.auth.browser import has_browser, open_browser

    screen, found = own.screen, running_console(own.settings)
    url = f"{found.public_url}?token={console_token(found)}"

    def open_page() -> None:
        if no_browser or print_only or not has_browser():
            print(url)
            return
        screen.note(f"opening {found.public_url} in your browser")
        if not asyncio.run(open_browser(url)):
            screen.note("the browser did not open; open this URL yourself:")
            print(url)

    return CommandResult({"url": url, "config": found.config}, open_page)
