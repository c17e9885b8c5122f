"""Find the fenced code blocks of a Markdown page, with the line each one starts at."""

import re
from dataclasses import dataclass

FENCE = re.compile(r"(?P<indent> *)(?P<marks>`{3,}|~{3,})\s*(?P<info>[^`]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block: its language ("" when none is said), its text, and the line of its first fence."""

    language: str
    text: str
    line: int


def code_blocks(markdown: str) -> list[Block]:
    """The fenced blocks of a page from top to bottom; a ValueError names the line of a fence left open."""
    found: list[Block] = []
    lines = enumerate(markdown.splitlines(), start=1)
    for number, line in lines:
        opening = FENCE.fullmatch(line)
        if opening is None:
            continue
        body: list[str] = []
        for _, inner in lines:
            if _closes(inner, opening["marks"]):
                break
            body.append(_without_indent(inner, len(opening["indent"])))
        else:
            raise ValueError(f"line {number}: this code block is never closed")
        language = opening["info"].split()[0] if opening["info"].strip() else ""
        found.append(Block(language=language, text="".join(f"{text}\n" for text in body), line=number))
    return found


def _closes(line: str, marks: str) -> bool:
    """Whether a line ends the block that `marks` opened: the same sign, at least as often, alone."""
    stripped = line.strip()
    return len(stripped) >= len(marks) and set(stripped) == {marks[0]}


def _without_indent(line: str, width: int) -> str:
    """A line of a block in a list, without the list's indent."""
    return line[min(width, len(line) - len(line.lstrip(" "))) :]
