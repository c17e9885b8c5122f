"""Check English: find awkward sentences in source files and Markdown pages.

`python -m tests.prose FILE...` prints the hits in files or folders, with advice; run it while you write.
`tests/prose_patterns.py` has the patterns, and `tests/prose.json` limits how many hits each of them may have.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from tests.prose_patterns import PATTERNS, Pattern

ROOT = Path(__file__).resolve().parents[1]
GENERATED = {"cli.md", "api.md"}
"""Pages, besides those in `reference/`, whose text comes from checked sources."""

Kind = Literal["docstring", "help", "message", "page"]
KINDS: tuple[Kind, ...] = get_args(Kind)

# A comment or a string literal. Nested quotes inside an f-string are always of the other kind in Python 3.11.
_TOKEN = re.compile(
    r"""\#[^\n]*
    |\"{3}(?P<long>(?:[^\\\"]|\\.|\"(?!\"\"))*)\"{3}
    |\"(?P<double>(?:[^\\\"\n]|\\.)*)\"
    |'(?P<single>(?:[^\\'\n]|\\.)*)'""",
    re.VERBOSE | re.DOTALL,
)
_PREFIX = re.compile(r"(?<!\w)[bfru]{1,2}$", re.IGNORECASE)
_FIELD = re.compile(r"\{\{|\}\}|\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}")
_HELP = re.compile(r"\b(?:help|epilog)=\(?\s*$")
_MARKUP = re.compile(
    r"</?[a-z]+[ >]|\b(?:SELECT|INSERT|UPDATE|DELETE|CREATE) |[{}=]\s*$|=>|\bfunction\b|^\s*[.#]?\w+ *\{"
)
_WORDS = re.compile(r"[A-Za-z]{2,}[,;:]? [A-Za-z]+[,;:]? [A-Za-z]+[,;:]? [A-Za-z]")
_CODE = re.compile(r"(`+)[^`]+?\1")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_FENCE = re.compile(r"^ *(`{3,}|~{3,}).*?^ *\1[`~]*$", re.MULTILINE | re.DOTALL)
_BREAK = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*>] |\d+\. |#+ |\||[├└│]|\S+ {2,}\S))|(?<=:)\n(?=\s{4,})")
_COLUMN = re.compile(r"\|")
_SENTENCE = re.compile(r"(?<=[.?!])[\"')*_]*\s+(?=[\"'(*_\[]*(?:[A-Z`]|toolbus\b))")
_ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|etc|vs)\.$")
_MARKS = re.compile(r"^[\s>|*_#-]*(?:\d+\. )?|\*\*|[*_|\s]+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """One sentence, heading or table cell of a file; `first` if it opens a docstring."""

    path: Path
    line: int
    kind: Kind
    text: str
    first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A sentence that a pattern matches."""

    pattern: Pattern
    sentence: Sentence

    def __str__(self) -> str:
        where = self.sentence.path
        shown = where.relative_to(ROOT) if where.is_relative_to(ROOT) else where
        return (
            f"{shown}:{self.sentence.line}: {self.pattern.name} ({self.sentence.kind}): {self.sentence.text}"
        )


def sources() -> list[Path]:
    """The files whose prose is checked: the package, the pages at the root, and docs."""
    return [*_below(ROOT / "src"), *sorted(ROOT.glob("*.md")), *_below(ROOT / "docs")]


def _below(folder: Path) -> list[Path]:
    """The source files and pages in a folder, without generated pages."""
    files = [*folder.rglob("*.py"), *folder.rglob("*.md")]
    return sorted(file for file in files if file.name not in GENERATED and "reference" not in file.parts)


def hits(paths: Iterable[Path]) -> list[Hit]:
    """Match every sentence of the files against every pattern."""
    return [
        Hit(pattern=pattern, sentence=sentence)
        for path in paths
        for sentence in sentences(path)
        for pattern in PATTERNS
        if pattern.matches(sentence.text, first=sentence.first)
    ]


def sentences(path: Path) -> Iterator[Sentence]:
    """The sentences of a Python file or a Markdown page, without code."""
    text = path.read_text(encoding="utf-8")
    pieces = _literals(text) if path.suffix == ".py" else _page(text)
    line, counted = 1, 0
    for start, kind, piece in pieces:
        opening = kind == "docstring"
        for offset, sentence in _split(piece):
            line, counted = line + text.count("\n", counted, start + offset), start + offset
            yield Sentence(path=path, line=line, kind=kind, text=sentence, first=opening)
            opening = False


def _literals(source: str) -> Iterator[tuple[int, Kind, str]]:
    """The docstrings, help texts and messages of a source; adjacent string literals are one text."""
    texts: list[str] = []
    start = end = 0
    for token in _TOKEN.finditer(source):
        if token[0].startswith("#"):
            continue
        prefix = _PREFIX.search(source, max(0, token.start() - 3), token.start())
        begin = prefix.start() if prefix else token.start()
        if texts and (token["long"] is not None or source[end:begin].strip()):
            yield from _classified(source, start, "".join(texts))
            texts = []
        if not texts:
            start = begin
        texts.append(_content(token, prefix[0].lower() if prefix else ""))
        end = token.end()
    yield from _classified(source, start, "".join(texts))


def _content(token: re.Match[str], prefix: str) -> str:
    """The text of one literal; a value in an f-string becomes X, and bytes and regexes become nothing."""
    if "b" in prefix or "r" in prefix:
        return ""
    body = token["long"] or token["double"] or token["single"] or ""
    return _FIELD.sub("X", body) if "f" in prefix else body


def _classified(source: str, start: int, text: str) -> Iterator[tuple[int, Kind, str]]:
    """A literal with its kind; nothing for code in other languages, and for names and other short strings."""
    before = source[max(0, start - 40) : start]
    alone = before.rstrip(" ")[-1:] in ("", "\n") and before.rstrip()[-1:] not in set("(,=[{+")
    if alone and source.startswith('"""', start):
        yield start, "docstring", text
    elif _WORDS.search(text) and not _MARKUP.search(text):
        yield start, "help" if _HELP.search(before) else "message", text


def _page(text: str) -> Iterator[tuple[int, Kind, str]]:
    """A page with its code blocks blanked out, so that every offset stays."""
    yield 0, "page", _FENCE.sub(lambda block: re.sub(r".", " ", block[0]), text)


def _split(piece: str) -> Iterator[tuple[int, str]]:
    """The sentences of a text, each with the offset it starts at."""
    for start, block in _parts(piece, _BREAK):
        if block.lstrip().startswith((">>>", "|--", "|:-")):
            continue
        is_row = block.lstrip().startswith("|")
        for cell_start, cell in _parts(block, _COLUMN) if is_row else [(0, block)]:
            for offset, sentence in _parts(cell, _SENTENCE):
                plain = _MARKS.sub("", _LINK.sub(r"\1", _CODE.sub("X", sentence)))
                plain = " ".join(plain.replace("\\n", " ").split())
                if re.search(r"[a-z]{2}", plain):
                    lead = len(sentence) - len(sentence.lstrip())
                    yield start + cell_start + offset + lead, plain


def _parts(text: str, separator: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """The parts of a text between matches of a separator, each with its offset."""
    start = 0
    for match in separator.finditer(text):
        if _ABBREVIATION.search(text[max(0, match.start() - 5) : match.start()]):
            continue
        yield start, text[start : match.start()]
        start = match.end()
    yield start, text[start:]


def main(arguments: list[str]) -> int:
    """Print the hits in the given files and folders, by default in all sources; 1 if there are any."""
    given = [Path(argument).resolve() for argument in arguments]
    paths = [path for entry in given for path in (_below(entry) if entry.is_dir() else [entry])]
    found = hits(paths if given else sources())
    for hit in found:
        print(f"{hit}\n    {hit.pattern.advise(hit.sentence.text)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
