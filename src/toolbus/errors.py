"""The public path of `toolbus.core.errors`."""

from toolbus.core.errors import *  # noqa: F403 - all of it, under the path that users import
