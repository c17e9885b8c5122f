"""The public path of `toolbus.core.values.errors`."""

from toolbus.core.values.errors import *  # noqa: F403 - all of it, under the path that users import
