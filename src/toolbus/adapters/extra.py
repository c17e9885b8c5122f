"""Say what to install when a framework is not there."""

from collections.abc import Generator
from contextlib import contextmanager

from toolbus.core.errors import ExtraMissing


@contextmanager
def needs(extra: str) -> Generator[None]:
    """Around the imports of an adapter: what is missing becomes `ExtraMissing`, which names the extra."""
    try:
        yield
    except ImportError as error:
        raise ExtraMissing(f"toolbus.adapters.{extra.replace('-', '_')}", extra, str(error)) from error
