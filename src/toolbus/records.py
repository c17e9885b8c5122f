"""The public path of `toolbus.core.values.records`."""

from toolbus.core.values.records import *  # noqa: F403 - all of it, under the path that users import
