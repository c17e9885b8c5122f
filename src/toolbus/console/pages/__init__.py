"""The pages of the console, in the order of the navigation."""

from collections.abc import Mapping

from toolbus.console.page import Page
from toolbus.console.pages import overview
from toolbus.console.pages.calls import call, calls
from toolbus.console.pages.content import content
from toolbus.console.pages.inbox import inbox
from toolbus.console.pages.runs import run, runs
from toolbus.console.pages.safety import approve, audit, held, keys, lock, policy, quotas, switch
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
    runs.PAGE,
    run.PAGE,
    policy.PAGE,
    quotas.PAGE,
    lock.PAGE,
    held.PAGE,
    approve.PAGE,
    switch.PAGE,
    audit.PAGE,
    keys.PAGE,
    search_page(lambda: PAGES),
)
BY_PATH: Mapping[str, Page] = {page.path: page for page in PAGES}
