"""The public path of `toolbus.bus.context`."""

from toolbus.bus.context import *  # noqa: F403 - all of it, under the path that users import
