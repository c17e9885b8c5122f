"""The English of docstrings, help texts, messages and pages: it may only get better.

`tests/prose.json` has the number of hits that each pattern may have in each kind of text. Run
`python -m tests.test_prose` after you removed some: it lowers the limits, and never raises one.
"""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from tests.prose import KINDS, ROOT, Hit, hits, sentences, sources
from tests.prose_patterns import PATTERNS, Pattern

LIMITS = ROOT / "tests" / "prose.json"
SHOWN = 20

Table = Mapping[str, Mapping[str, int]]

SOURCE = '''
"""The queue. Second sentence of it."""  # a comment about it

LIMIT = 3
"""How many wait."""
QUERY = "SELECT name FROM tools WHERE the name is that of it"


def enter(name: str = "x", why: str = typer.Option(help="Also those that have ended.")) -> None:
    raise ValueError(f"what differs in {name + 'a'} is held; " "approve it")
'''
PAGE = """\
# Calls of tools

Run `what is held` first. It retries
the call. [A link](x.md) follows.

```python
print("what is held")
```

| name | what it does |
|---|---|
| `call` | calls a tool |
"""


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.name)
def test_a_pattern_matches_its_wrong_examples_and_no_pattern_matches_a_right_one(pattern: Pattern) -> None:
    opens = pattern.first is True
    assert [text for text in pattern.wrong if not pattern.matches(text, first=opens)] == []
    assert [
        (other.name, text) for text in pattern.right for other in PATTERNS if other.matches(text, first=opens)
    ] == []


def test_docstrings_help_and_messages_are_found_in_source_and_code_is_not(tmp_path: Path) -> None:
    file = tmp_path / "queue.py"
    file.write_text(SOURCE)
    assert [(found.line, found.kind, found.first, found.text) for found in sentences(file)] == [
        (2, "docstring", True, "The queue."),
        (2, "docstring", False, "Second sentence of it."),
        (5, "docstring", True, "How many wait."),
        (9, "help", False, "Also those that have ended."),
        (10, "message", False, "what differs in X is held; approve it"),
    ]


def test_sentences_headings_and_cells_are_found_on_a_page_and_code_is_not(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text(PAGE)
    assert [(found.line, found.kind, found.text) for found in sentences(file)] == [
        (1, "page", "Calls of tools"),
        (3, "page", "Run X first."),
        (3, "page", "It retries the call."),
        (4, "page", "A link follows."),
        (10, "page", "name"),
        (10, "page", "what it does"),
        (12, "page", "calls a tool"),
    ]


def test_no_pattern_has_more_or_fewer_hits_than_its_limit() -> None:
    found, limits = hits(sources()), _limits()
    changed = _changed() if counted(found) != limits else set[Path]()
    problems = [
        excess(pattern, [hit for hit in found if hit.pattern is pattern], limits, changed)
        for pattern in PATTERNS
    ]
    assert not any(problems), "\n".join(dict.fromkeys(filter(None, problems)))


def test_a_new_hit_is_shown_with_advice_and_those_in_changed_files_first(tmp_path: Path) -> None:
    old, new = tmp_path / "old.md", tmp_path / "new.md"
    old.write_text("What waits is kept.\n")
    new.write_text("What differs is held.\n")
    found = [hit for hit in hits([old, new]) if hit.pattern.name == "clause as subject"]
    problem = excess(found[0].pattern, found, {"clause as subject": {"page": 1}}, {new})
    assert "clause as subject: 2 in pages, and 1 may be" in problem
    assert "name the thing" in problem
    assert "new.md:1" in problem
    assert "old.md" not in problem


def test_a_limit_that_is_too_high_has_to_be_lowered() -> None:
    problem = excess(PATTERNS[0], [], {PATTERNS[0].name: {"docstring": 1}}, set())
    assert problem == "lower the limit: python -m tests.test_prose"


def test_limits_are_lowered_and_never_raised() -> None:
    name = PATTERNS[0].name
    assert lowered({}, {name: {"page": 3}}) == {name: {"page": 3}}
    assert lowered({name: {"page": 3}}, {name: {"page": 2}}) == {name: {"page": 2}}
    with pytest.raises(SystemExit, match=f"{name} has 4 hits in pages, and 3 may be"):
        lowered({name: {"page": 3}}, {name: {"page": 4}})


def excess(pattern: Pattern, found: list[Hit], limits: Table, changed: set[Path]) -> str:
    """The difference of a pattern's hits from its limits, with hits to look at; "" if there is none."""
    counts, allowed = counted(found).get(pattern.name, {}), limits.get(pattern.name, {})
    lines: list[str] = []
    for kind in KINDS:
        count, limit = counts.get(kind, 0), allowed.get(kind, 0)
        if count > limit:
            of_kind = [hit for hit in found if hit.sentence.kind == kind]
            shown = [hit for hit in of_kind if hit.sentence.path in changed] or of_kind
            lines.append(f"{pattern.name}: {count} in {kind}s, and {limit} may be; {pattern.advice}")
            lines += [f"  {hit}" for hit in shown[:SHOWN]]
    if not lines and any(counts.get(kind, 0) < allowed.get(kind, 0) for kind in KINDS):
        lines.append("lower the limit: python -m tests.test_prose")
    return "\n".join(lines)


def counted(found: Iterable[Hit]) -> dict[str, dict[str, int]]:
    """The number of hits by pattern and kind of text."""
    counts = Counter((hit.pattern.name, hit.sentence.kind) for hit in found)
    return {pattern.name: {kind: counts[pattern.name, kind] for kind in KINDS} for pattern in PATTERNS}


def lowered(limits: Table, counts: Table) -> Table:
    """The counts as new limits; SystemExit if one is too high. A new pattern starts with its count."""
    for name, kinds in counts.items():
        for kind, count in kinds.items():
            limit = limits.get(name, kinds).get(kind, 0)
            if count > limit:
                raise SystemExit(f"{name} has {count} hits in {kind}s, and {limit} may be: rewrite them")
    return counts


def _limits() -> Table:
    return json.loads(LIMITS.read_text()) if LIMITS.exists() else {}


def _changed() -> set[Path]:
    """The files that differ from the last commit; none without git."""
    try:
        status = subprocess.run(
            ["git", "status", "--porcelain", "-uall", "--no-renames"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    except (OSError, subprocess.SubprocessError):
        return set()
    return {ROOT / line[3:] for line in status.stdout.splitlines()}


def main() -> None:
    """Lower the limits to the current counts."""
    LIMITS.write_text(json.dumps(lowered(_limits(), counted(hits(sources()))), indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
