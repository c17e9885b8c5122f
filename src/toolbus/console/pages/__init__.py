"""The pages of the console, in the order of the navigation."""

from collections.abc import Mapping

from toolbus.console.page import Page
from toolbus.console.pages import overview
from toolbus.console.pages.calls import call, calls
from toolbus.console.pages.content import content
from toolbus.console.pages.inbox import held, inbox
from toolbus.console.pages.runs import runs
from toolbus.console.pages.safety import audit, keys
from toolbus.console.pages.search import search_page
from toolbus.console.pages.servers import add, edit, server, table
from toolbus.console.pages.tools import tools

PAGES: tuple[Page, ...] = (
    overview.PAGE,
    table.PAGE,
    server.PAGE,
    add.PAGE,
    edit.PAGE,
    tools.PAGE,
    content.PAGE,
    calls.PAGE,
    call.PAGE,
    inbox.PAGE,
    held.PAGE,
    runs.PAGE,
    audit.PAGE,
    keys.PAGE,
    search_page(lambda: PAGES),
)
BY_PATH: Mapping[str, Page] = {page.path: page for page in PAGES}
