"""Write the table of characters that look alike: `python -m tests.policy.confusables`.

It needs ICU, which carries Unicode's confusables.txt: `pip install pyicu-wheels`.
"""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import toolbus.core.text.lookalikes

FILE = Path(toolbus.core.text.lookalikes.__file__).with_name("confusables.txt")
CHARACTERS = (chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000)


def written(icu: Any) -> str:
    """The table as text: the notice at its head, and a line for each prototype."""
    notice = FILE.read_text(encoding="utf-8").partition("\n\n")[0].splitlines()
    notice[0] = f"# Unicode {icu.UNICODE_VERSION}: characters that look alike (confusables.txt of UTS #39)."
    groups: dict[str, list[str]] = {}
    for character, prototype in prototypes(icu):
        groups.setdefault(_codes(prototype), []).append(_codes(character))
    lines = [f"{prototype or '-'}: {' '.join(those)}" for prototype, those in sorted(groups.items())]
    return "\n".join([*notice, "", *lines, ""])


def prototypes(icu: Any) -> Iterator[tuple[str, str]]:
    """Each character that has a prototype, and is not taken apart before it is looked up."""
    checker, parts = icu.SpoofChecker(), icu.Normalizer2.getNFDInstance()
    for character in CHARACTERS:
        if icu.Char.isdefined(ord(character)) and str(parts.normalize(character)) == character:
            prototype = str(checker.getSkeleton(0, character))
            if prototype != character:
                yield character, prototype


def _codes(text: str) -> str:
    return "+".join(f"{ord(character):x}" for character in text)


if __name__ == "__main__":
    FILE.write_text(written(importlib.import_module("icu")), encoding="utf-8")
