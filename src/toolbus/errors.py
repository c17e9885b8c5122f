"""The exceptions of toolbus, under the path that users import."""

from toolbus.core.operation import quota as _quota
from toolbus.core.operation import run_errors as _run_errors
from toolbus.core.operation.quota import *  # noqa: F403 - all of them
from toolbus.core.operation.run_errors import *  # noqa: F403 - all of them
from toolbus.core.values import errors as _errors
from toolbus.core.values import tape_errors as _tape_errors
from toolbus.core.values.errors import *  # noqa: F403 - all of them
from toolbus.core.values.tape_errors import *  # noqa: F403 - all of them

__all__: list[str] = []
__all__ += _errors.__all__
__all__ += _quota.__all__
__all__ += _run_errors.__all__
__all__ += _tape_errors.__all__
