"""Compare the frontmatter of a SKILL.md with the entry of the skill, value by value.

YAML libraries read `yes`, `1.0` and dates differently. Every value that one of them may have read
from the same text is treated as equal: a person who approves an entry reads the same characters.
"""

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from toolbus.core.values.skills import LONGEST_FRONTMATTER
from toolbus.schema.values import JSON, is_array, is_object

if TYPE_CHECKING:
    import yaml

_BLOCK = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_LONGEST = 2 * LONGEST_FRONTMATTER
"""Characters; YAML may take more than the same value as JSON."""


def body_of(text: str) -> str:
    """The text of a SKILL.md without its frontmatter."""
    found = _BLOCK.match(text)
    return text if found is None else text[found.end() :].lstrip("\r\n")


def frontmatter_problem(text: str, entry: JSON) -> str | None:
    """The first difference between the frontmatter of a SKILL.md and its entry; None if they agree."""
    import yaml  # only here: it takes a while

    found = _BLOCK.match(text[: _LONGEST + 100])
    if found is None:
        return f"it has no frontmatter, or one of more than {_LONGEST:,} characters"
    try:
        loader = yaml.SafeLoader(found[1])
        return _difference(loader.get_single_node(), entry, "frontmatter")
    except (yaml.YAMLError, ValueError, RecursionError):
        return "its frontmatter is not YAML that can be read"


def _difference(node: "yaml.Node | None", value: JSON, at: str) -> str | None:
    import yaml

    if isinstance(node, yaml.MappingNode) and is_object(value):
        keys = [key.value if isinstance(key, yaml.ScalarNode) else None for key, _ in node.value]
        if len(set(keys)) < len(keys):
            return f"its {at} has a key twice"
        if set(keys) != set(value):
            odd = sorted(str(key) for key in set(keys) ^ set(value))
            return f"its {at} differs from its entry in {', '.join(map(repr, odd[:5]))}"
        pairs = [(inner, value[key.value], f"{at}.{key.value}") for key, inner in node.value]
    elif isinstance(node, yaml.SequenceNode) and is_array(value) and len(node.value) == len(value):
        pairs = [
            (inner, item, f"{at}[{n}]") for n, (inner, item) in enumerate(zip(node.value, value, strict=True))
        ]
    elif isinstance(node, yaml.ScalarNode) and _is_same(node, value):
        return None
    else:
        return f"its {at} is not that of its entry"
    return next(filter(None, (_difference(*pair) for pair in pairs)), None)


def _is_same(node: "yaml.ScalarNode", value: JSON) -> bool:
    text: str = node.value
    if isinstance(value, str):
        # A date may have been given a time.
        return value == text or (node.tag.endswith(":timestamp") and value.startswith(text[:10]))
    if node.style in ("'", '"', "|", ">"):
        return False
    return any(type(value) is type(one) and value == one for one in _readings(node.tag, text))


def _readings(tag: str, text: str) -> list[Any]:
    """The values other than text that libraries for YAML 1.1 and 1.2 read from a plain scalar."""
    import yaml

    kind = tag.rpartition(":")[2]
    readings: list[Any] = []
    if kind in ("null", "bool", "int", "float"):
        one = yaml.safe_load(text) if text else None
        readings.append(one)
        if isinstance(one, float) and one.is_integer():
            readings.append(int(one))  # JSON of some languages has one kind of number
    with suppress(ValueError):
        readings += [int(text)] if re.fullmatch(r"[-+]?\d+", text) else [float(text)]
    return readings
