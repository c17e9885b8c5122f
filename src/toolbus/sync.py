"""The public path of `toolbus.bus.sync`, and of what its methods take and return."""

from toolbus.bus.sync import *  # noqa: F403 - all of it, under the path that users import
from toolbus.bus.sync import connect_mcp as _connect_mcp
from toolbus.public import *  # noqa: F403

connect_mcp = _connect_mcp  # not the one that is awaited
