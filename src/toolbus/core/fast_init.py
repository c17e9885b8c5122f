"""Make objects of a frozen dataclass as fast as of an open one: every call makes several.

`dataclass(frozen=True)` sets each field with a call of `object.__setattr__`, which takes four times as long
as an assignment. Here the fields are assigned while the object belongs to an open class of the same layout;
then it becomes what it is.
"""

from dataclasses import MISSING, fields
from typing import Any, TypeVar

T = TypeVar("T")


def with_fast_init(cls: type[T]) -> type[T]:
    """The same frozen, slotted, keyword-only dataclass, with a faster `__init__`."""
    every = fields(cls)  # pyright: ignore[reportArgumentType]  # a dataclass, which the types cannot express
    draft = type(cls.__name__, (), {"__slots__": tuple(field.name for field in every)})
    scope: dict[str, Any] = {"cls": cls, "draft": draft, "put": object.__setattr__, "MISSING": MISSING}
    parameters: list[str] = []
    lines = ["put(self, '__class__', draft)"]
    for field in every:
        name, default, value = field.name, f"_{field.name}", field.name
        scope[default] = field.default if field.default_factory is MISSING else field.default_factory
        if field.default_factory is not MISSING:
            value = f"{default}() if {name} is MISSING else {name}" if field.init else f"{default}()"
            default = "MISSING"
        if field.init:
            parameters.append(
                name if scope.get(default) is MISSING and value == name else f"{name}={default}"
            )
        lines.append(f"self.{name} = {value}")
    lines.append("self.__class__ = cls")
    source = f"def __init__(self, *, {', '.join(parameters)}):\n " + "\n ".join(lines)
    exec(source, scope)  # as `dataclass` does; only names of fields are in it
    init = scope["__init__"]
    init.__wrapped__ = cls.__init__  # for its signature
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    cls.__init__ = init
    return cls
