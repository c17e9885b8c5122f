"""Keep secrets out of the exceptions that our errors are raised from, and so out of tracebacks."""

from collections.abc import Callable, Iterator
from typing import cast

from pydantic import ValidationError


class RedactedCause(Exception):
    """Stands in for an exception that shows a secret: its class and text, with the secret as `***`."""


def redacted_cause(error: BaseException, redacted: Callable[[str], str]) -> BaseException:
    """The exception; if a secret shows in it, or in an exception that led to it, a stand-in without them."""
    if all(_is_safe(one, redacted) for one in _chain(error)):
        return error
    text = redacted(first_problem(error) if isinstance(error, ValidationError) else str(error))
    stand_in = RedactedCause(f"{type(error).__name__}: {text}")
    return stand_in.with_traceback(error.__traceback__)


def first_problem(error: ValidationError) -> str:
    """The first problem, without the input, which may contain a secret."""
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _is_safe(error: BaseException, redacted: Callable[[str], str]) -> bool:
    if isinstance(error, ValidationError):
        return False  # it quotes the input and cuts it, so that a part of a secret may be left
    texts: list[str] = [str(error), repr(error), *getattr(error, "__notes__", ())]
    return all(redacted(text) == text for text in texts)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception, those it groups, and those that led to it."""
    todo: list[BaseException | None] = [error]
    seen: set[int] = set()
    while todo:
        one = todo.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            yield one
            todo += (one.__cause__, one.__context__)
            if isinstance(one, BaseExceptionGroup):
                todo += cast("BaseExceptionGroup[BaseException]", one).exceptions
