"""Remove hidden characters and terminal escapes, so that people and models see the same text.

Characters that writing needs are kept. They are joiners in emoji and in scripts such as Persian or Hindi, a
selector after an emoji, and the tags of a region's flag. Each is kept only where it has an effect, so it
cannot encode a hidden message. A message would need a visible letter, emoji or flag for every bit or two.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, TypeGuard, cast

from toolbus.schema.values import JSON, JSONObject

_TEXTS = ("description", "title", "$comment")
"""The keys in a schema whose values are text for people."""

# Sets of characters, each written for use inside the brackets of a regular expression.
CONTROLS = r"\x00-\x08\x0b-\x1f\x7f-\x9f"
"""C0 and C1 controls, except line feed and tab."""
FORMATTING = (
    "\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f"  # soft hyphen, zero width, bidi, operators
    "\ud800-\udfff\ufeff\ufff9-\ufffb"  # surrogates, BOM, annotations
)
"""Characters that a terminal obeys or hides."""
TAGS = "\U000e0000-\U000e007f"
"""A hidden copy of ASCII."""
BLANK = "\u034f\u115f\u1160\u17b4\u17b5\u3164\ufe00-\ufe0f\uffa0"
"""Printable characters that show nothing: fillers and variation selectors."""

_EMOJI = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf\u2934\u2935"
    "\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
# Arabic to Sinhala, Tibetan, Myanmar, Khmer, Mongolian and related scripts, without removed characters.
_SHAPED = (
    "\u0600-\u061b\u061d-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u17b3\u17b6-\u180d\u180f-\u18af"
    "\u1900-\u1cff\ua800-\uabff\U00010a00-\U00011fff\U0001e900-\U0001e95f"
)
# After these, a joiner may also end a word: half forms, and the chillus of older Malayalam.
_VIRAMA = "\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d\u0dca\u1039\u17d2"
_INVISIBLE = FORMATTING + BLANK + "\ufdd0-\ufdef\ufff0-\ufff8\ufffe\uffff"  # the last are noncharacters
_INVISIBLE_BEYOND = (
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # shorthand, music, tags
) + "".join(chr(plane + last) for plane in range(0x10000, 0x110000, 0x10000) for last in (0xFFFE, 0xFFFF))

# Every range of a set costs time per character, so the rare ones are first searched as one range.
_SUSPECT = re.compile(rf"[{CONTROLS}{_INVISIBLE}\U0001bca0-\U0010ffff]")
_SUSPECT_ASCII = bytes([*range(9), *range(0x0B, 0x20), 0x7F])

# Also the selectors of Mongolian and of ideographs, and an empty Braille cell.
_NOT_SEEN = re.compile(f"[{BLANK}\u180b-\u180d\u180f\u2800\U000e0100-\U000e01ef]")

# The flags in use: England, Scotland and Wales. Any other code could be part of a message.
_FLAGS = "|".join("".join(chr(0xE0000 + ord(letter)) for letter in code) for code in ("beng", "bsct", "bwls"))
# The context, after one suspect character, in which it is kept ...
_KEPT = "|".join(
    [
        f"(?<=[#*0-9{_EMOJI}][\ufe0e\ufe0f])",
        f"(?:(?<=[{_EMOJI}]\u200d)|(?<=[{_EMOJI}]\ufe0f\u200d))(?=[{_EMOJI}])",
        f"(?<=\U0001f3f4\U000e0067)(?:{_FLAGS})\U000e007f",
        f"(?<=[{_SHAPED}][\u200c\u200d\u180e])(?=[{_SHAPED}])",
        f"(?<=[{_VIRAMA}][\u200c\u200d])",
    ]
)
# ... and the text that is removed with it. An escape sequence starts with ESC and a letter, or with one C1
# character for both. Text in it, such as a hyperlink's URL, ends with the line, so that an unterminated one
# does not swallow the page.
_CSI = "[0-?]*+[ -/]*+[@-~]"
_STRING = r"[^\x00-\x08\x0a-\x1f\x7f-\x9f]*+(?:\x07|\x1b\\|\x9c)"
_REMOVED = "|".join(
    [
        # The last also takes a selector, because the digit it belongs to is removed.
        rf"(?<=\x1b)(?:\[{_CSI}|[\]PX^_]{_STRING}|[ -/]*+[0-~][\ufe0e\ufe0f]*+)",
        rf"(?<=\x9b){_CSI}",
        rf"(?<=[\x90\x98\x9d-\x9f]){_STRING}",
        rf"(?<![\x1b\x80-\x9f])[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f{_INVISIBLE}{_INVISIBLE_BEYOND}]*+",
        "",
    ]
)


@cache
def _cleaning() -> re.Pattern[str]:
    # Compiled when needed: it takes longer than all other patterns together, and few texts need it.
    # One character set in front: searching for it is many times faster than for alternatives.
    return re.compile(rf"{_SUSPECT.pattern}(?<=[\x00-\uffff{_INVISIBLE_BEYOND}])(?:({_KEPT})|{_REMOVED})")


def cleaned(text: str) -> str:
    """The text without invisible characters; the same object if there is nothing to remove.

    Escape sequences are removed as a whole. Line ends, vertical tabs and page breaks become line feeds, so
    that words do not run together.
    """
    if not _is_suspect(text):
        return text
    # A page break is common in text from PDFs, NEL in text from mainframes.
    plain = text.replace("\r\n", "\n")
    for line_end in "\r\v\f\x85":
        plain = plain.replace(line_end, "\n")
    plain = _cleaning().sub(lambda found: "" if found[1] is None else found[0], plain)
    return text if plain == text else plain


def exact(text: str) -> str:
    """The text on one line, with every character written out that does not show, or not as what it is."""
    return "".join(
        letter
        if letter.isprintable() and not _NOT_SEEN.match(letter)
        else letter.encode("unicode_escape").decode()
        for letter in text
    )


def headed(text: str, most: int) -> str:
    """The beginning of a text, and how much of it is cut; the same object if it is short enough."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text) - most:,} more characters)"


def cleaned_json(value: JSON) -> JSON:
    """The value with every string cleaned, including keys; the same object if there is nothing to remove.

    If two keys become equal, the later one gets a number.
    """
    if all(cleaned(text) is text for text in strings(value)):
        return value
    return rewritten_json(value, lambda scalar: cleaned(scalar) if isinstance(scalar, str) else scalar)


def rewritten_json(value: JSON, rewrite: Callable[[JSON], JSON]) -> JSON:
    """A copy of the value with every string, number, boolean and null rewritten, including keys.

    If two keys become equal, the later one gets a number.
    """
    # No recursion: the server decides how deep the value is.
    result: list[JSON] = [None]
    todo: list[tuple[JSON, JSON, JSON]] = [(value, result, 0)]
    while todo:
        source, holder, slot = todo.pop()
        if _is_object(source):
            holder[slot] = new = dict[str, JSON].fromkeys(_rewritten_keys(source, rewrite))
            todo.extend((item, new, key) for key, item in zip(new, source.values(), strict=True))
        elif _is_array(source):
            holder[slot] = items = list(source)
            todo.extend((item, items, index) for index, item in enumerate(items))
        else:
            holder[slot] = rewrite(source)
    return result[0]


def cleaned_schema(schema: JSON) -> JSON:
    """The schema with clean texts; the same object if there is nothing to remove.

    Names and enum values are unchanged, because calls must use them exactly.
    """
    if _is_plain(schema) or all(cleaned(text) is text for text in schema_texts(schema)):
        return schema
    return with_schema_texts(schema, [cleaned(text) for text in schema_texts(schema)])


def schema_texts(schema: JSON) -> list[str]:
    """Every text for people in the schema."""
    return [text for _, _, text in _texts(schema)]


def with_schema_texts(schema: JSON, texts: Iterable[str]) -> JSON:
    """A copy of the schema with other texts, in the order of `schema_texts`."""
    fresh = _copied(schema)
    for (holder, key, _), text in zip(_texts(fresh), texts, strict=True):
        holder[key] = text
    return fresh


def _is_suspect(text: str) -> bool:
    if text.isascii():  # eight times faster than the regular expression
        plain = text.encode("ascii")
        return len(plain.translate(None, _SUSPECT_ASCII)) != len(plain)
    return _SUSPECT.search(text) is not None


def strings(value: JSON) -> Iterator[str]:
    """Every text in a JSON value, including keys, in its order."""
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            yield item
        elif _is_object(item):
            yield from item
            todo.extend(reversed(list(item.values())))
        elif _is_array(item):
            todo.extend(reversed(item))


def _rewritten_keys(source: JSONObject, rewrite: Callable[[JSON], JSON]) -> list[str]:
    keys: dict[str, None] = {}
    numbers: dict[str, int] = {}
    for key in source:
        clean = name = rewrite(key)
        # A key that was already clean keeps its name, wherever it is.
        while name in keys or (name != key and name in source):
            # Each name counts on, or many equal ones would take quadratic time.
            numbers[clean] = numbers.get(clean, 1) + 1
            name = f"{clean}_{numbers[clean]}"
        keys[name] = None
    return list(keys)


def _is_object(value: JSON) -> TypeGuard[JSONObject]:
    return isinstance(value, Mapping)


def _is_array(value: JSON) -> TypeGuard[list[JSON] | tuple[JSON, ...]]:
    return isinstance(value, list | tuple)


def _is_plain(schema: JSON) -> bool:
    """Whether it is ASCII without control characters: true for most schemas, and much faster to check."""
    try:
        shown = repr(schema)
    except (RecursionError, ValueError):  # too deep, or a number with too many digits
        return False
    return shown.isascii() and "\\" not in shown


def _texts(schema: JSON) -> list[tuple[Any, str, str]]:
    """Every text in the schema, with its mapping. No recursion: the server decides how deep it is."""
    found: list[tuple[Any, str, str]] = []
    rest: list[Any] = [schema]
    while rest:
        holder = rest.pop()
        if isinstance(holder, dict):
            pairs = cast("dict[str, JSON]", holder).items()
            found += [(holder, key, text) for key, text in pairs if key in _TEXTS and isinstance(text, str)]
            rest += [value for _, value in pairs if isinstance(value, dict | list)]
        elif isinstance(holder, list):
            rest += [value for value in cast("list[JSON]", holder) if isinstance(value, dict | list)]
    return found


def _copied(schema: JSON) -> JSON:
    fresh: list[Any] = [schema]
    rest: list[tuple[Any, Any]] = [(fresh, 0)]
    while rest:
        holder, key = rest.pop()
        holder[key] = value = holder[key].copy()
        inner = cast("Any", value.items() if isinstance(value, dict) else enumerate(value))
        rest += [(value, key) for key, item in inner if isinstance(item, dict | list)]
    return fresh[0]


# Also the format controls of hieroglyphs, shorthand and music, and the separators of lines and paragraphs.
UNSEEN = re.compile(
    f"[{CONTROLS}{FORMATTING}{TAGS}\u2028\u2029\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a]"
)


def visible(text: str) -> str:
    """The text with everything that a terminal would obey, or hide, written out; line feeds and tabs stay."""
    plain = text.replace("\r\n", "\n")
    return UNSEEN.sub(lambda found: found.group().encode("unicode_escape").decode(), plain)
