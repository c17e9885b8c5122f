"""The public names of `toolbus`, each one imported once. This loads the whole package."""

from toolbus.bus.catalog.tool import Tool as Tool
from toolbus.bus.connection import McpConnection as McpConnection
from toolbus.bus.connection import connect_mcp as connect_mcp
from toolbus.bus.sync import SyncToolbus as SyncToolbus
from toolbus.bus.toolbus import Toolbus as Toolbus
from toolbus.bus.view import SessionView as SessionView
from toolbus.bus.view import View as View
from toolbus.call import Hook as Hook
from toolbus.config import BusConfig as BusConfig
from toolbus.config import ServerConfig as ServerConfig
from toolbus.connect.auth.browser import browser_login as browser_login
from toolbus.core.public import *  # noqa: F403 - all of them
from toolbus.shape import Shaper as Shaper
from toolbus.state.tokens.store import TokenStore as TokenStore
