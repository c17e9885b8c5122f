"""The pages of the console, in the order of the navigation."""

from collections.abc import Mapping

from toolbus.gateway.console.page import Page
from toolbus.gateway.console.pages import held, keys, servers

PAGES: tuple[Page, ...] = (servers.PAGE, held.PAGE, keys.PAGE)
BY_PATH: Mapping[str, Page] = {page.path: page for page in PAGES}
