"""The public path of `toolbus.bus.sync`."""

from toolbus.bus.sync import *  # noqa: F403 - all of it, under the path that users import
