"""The public path of `toolbus.core.records`."""

from toolbus.core.records import *  # noqa: F403 - all of it, under the path that users import
