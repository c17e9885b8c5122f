"""The process that has collected the tests, and forks pytest's workers. Run by `tests.warm`.

A worker collects them again, but has nothing left to import, which is most of what collecting takes.
"""

import gc
import os
import sys
from importlib.util import find_spec

import pytest

from tests import warm
from tests.warm.forking import serve


def _collect(arguments: list[str]) -> None:
    """Import all modules of the workers; a failing import fails there again and is reported."""
    told, silence = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    # Without capturing: a module may keep the streams that it finds.
    pytest.main([*arguments, "-n0", "--collect-only", "-qq", "-s"])
    os.dup2(told, 1)
    os.close(told)
    os.close(silence)
    assert not warm.prepared.cache_info().currsize, "a module starts a process when it is imported"
    if find_spec("hypothesis"):
        from hypothesis.strategies import text

        text().validate()  # it takes seconds to list the characters that there are
    gc.collect()
    gc.freeze()
    gc.disable()  # until the worker has collected


def _start(words: list[str]) -> None:
    match words:
        case ["python", "-u", "-c", code]:
            sys.argv = ["-c"]
            exec(code, {"__name__": "__main__"})
        case _:
            raise SystemExit(f"only for a worker of pytest, not for {words}")


if __name__ == "__main__":
    _collect(sys.argv[2:])
    serve(sys.argv[1], _start)
