"""The pages of the console, in the order of the navigation."""

from collections.abc import Mapping

from toolbus.console.page import Page
from toolbus.console.pages import audit, calls, catalog, held, keys, questions, runs, servers, tool

PAGES: tuple[Page, ...] = (
    servers.PAGE,
    catalog.PAGE,
    tool.PAGE,
    calls.PAGE,
    questions.PAGE,
    runs.PAGE,
    held.PAGE,
    audit.PAGE,
    keys.PAGE,
)
BY_PATH: Mapping[str, Page] = {page.path: page for page in PAGES}
