"""The public path of `toolbus.core.operation.events`."""

from toolbus.core.operation.events import *  # noqa: F403 - all of it, under the path that users import
