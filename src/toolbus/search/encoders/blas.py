"""One thread for the matrix products of numpy while a text is encoded.

The products are small: on a machine with other work, threads wait for each other longer than they compute. On
a busy machine of two cores a query took 90 to 280 ms of CPU time with them, and 17 ms without.
"""

import ctypes
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from threading import Lock
from typing import Any

_PREFIXES = ("scipy_openblas", "openblas")
_SUFFIXES = ("64_", "_", "")
_users = 0
_before = 1
_lock = Lock()


@contextmanager
def one_thread() -> Generator[None]:
    """The setting holds for the whole process, so it is put back when the last one is done."""
    global _users, _before
    found = _functions()
    if found is None:
        yield
        return
    get, set_ = found
    with _lock:
        if _users == 0:
            _before = get()
            set_(1)
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                set_(_before)


@cache
def _functions() -> tuple[Any, Any] | None:
    """OpenBLAS's own, in the library that numpy has loaded; None if it has another one."""
    try:
        loaded: Any = import_module("numpy._core._multiarray_umath")
        library = ctypes.CDLL(loaded.__file__)
    except (ImportError, OSError, AttributeError):
        return None
    for prefix in _PREFIXES:
        for suffix in _SUFFIXES:
            get = getattr(library, f"{prefix}_get_num_threads{suffix}", None)
            set_ = getattr(library, f"{prefix}_set_num_threads{suffix}", None)
            if get is not None and set_ is not None:
                return get, set_
    return None
