"""Characters that a terminal or a page would obey or hide, written out."""

import re

from toolbus.core.text.text import CONTROLS, FORMATTING, TAGS

# Also the format controls of hieroglyphs, shorthand and music, and the separators of lines and paragraphs.
UNSEEN = re.compile(
    f"[{CONTROLS}{FORMATTING}{TAGS}\u2028\u2029\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a]"
)


def visible(text: str) -> str:
    """The text with everything that a terminal would obey, or hide, written out; line feeds and tabs stay."""
    plain = text.replace("\r\n", "\n")
    return UNSEEN.sub(lambda found: found.group().encode("unicode_escape").decode(), plain)
