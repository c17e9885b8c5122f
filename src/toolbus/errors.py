"""The exceptions of toolbus, under the path that users import."""

from toolbus.core.values import errors as _errors
from toolbus.core.values.errors import *  # noqa: F403 - all of them

__all__: list[str] = []
__all__ += _errors.__all__
