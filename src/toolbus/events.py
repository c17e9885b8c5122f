"""The public path of `toolbus.core.events`."""

from toolbus.core.events import *  # noqa: F403 - all of it, under the path that users import
