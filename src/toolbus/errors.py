"""The exceptions of toolbus; `toolbus` has them, too."""

from toolbus.core.values import errors as _errors
from toolbus.core.values.errors import *  # noqa: F403 - all of them

__all__ = _errors.__all__
