"""Name the extra to install when a framework is missing."""

from collections.abc import Generator
from contextlib import contextmanager

from toolbus.core.values.errors import ExtraMissing


@contextmanager
def require_extra(extra: str) -> Generator[None]:
    """Turn an ImportError of an adapter's imports into `ExtraMissing`, which names the extra."""
    try:
        yield
    except ImportError as error:
        raise ExtraMissing(f"toolbus.adapters.{extra.replace('-', '_')}", extra, str(error)) from error
