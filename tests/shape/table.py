"""`make shapes`: how the real definitions of the corpus fare in every dialect, and how long it takes."""

import gc
import time
from collections import Counter
from collections.abc import Callable

from tests.inside.shape import DIALECTS, GRADES, Dialect, converted, named, selected, shaped
from tests.shape import corpus, judges
from tests.shape.providers import CHECKERS
from toolbus.records import Origin, ToolSpec


def many(count: int) -> list[ToolSpec]:
    """That many tools, made of the corpus again and again under other servers."""
    known = corpus.specs()
    return [
        ToolSpec(
            name=(name := f"{number}_{(spec := known[number % len(known)]).origin.tool}"),
            origin=Origin(f"s{number // len(known)}", name),
            description=spec.description,
            input_schema=spec.input_schema,
        )
        for number in range(count)
    ]


def seconds(count: int, dialect: Dialect) -> float:
    """The time for that many tools through naming, selection and one dialect."""
    tools = many(count)
    servers = dict.fromkeys((tool.origin.server for tool in tools), None)
    rules = dict.fromkeys(servers, ((), ("*secret*",)))
    gc.disable()  # it would also go through whatever else lives in this process
    try:
        start = time.process_time()  # of one core: what else runs on the machine does not count
        for spec in shaped(tools, [selected(rules), named("auto", servers)]):
            converted(spec, dialect)
        return time.process_time() - start
    finally:
        gc.enable()


def main(say: Callable[[str], None] = print, *, most: int | None = None, timed: int = 10_000) -> None:
    """Print the table for all definitions, or at most so many."""
    specs = corpus.specs()[:most]
    say(f"{len(specs)} definitions from {corpus.source()}\n")
    say("".join(f"{word:>18}" for word in ("dialect", *GRADES, "refused", f"{timed:,} take")))
    for dialect in DIALECTS:
        definitions = [converted(spec, dialect) for spec in specs]
        grades = Counter(definition.grade for definition in definitions)
        refused = sum(
            bool(CHECKERS[dialect](found.value) or judges.refusals(dialect, found.value))
            for found in definitions
        )
        counts = [f"{grades[grade]} ({grades[grade] / len(specs):.1%})" for grade in GRADES]
        say(
            "".join(f"{cell:>18}" for cell in (dialect, *counts, refused, f"{seconds(timed, dialect):.2f} s"))
        )
    strict = [converted(spec, "openai-strict").value["function"]["strict"] for spec in specs]
    say(f"\nstrict mode holds for {sum(strict)} of {len(strict)}; the others go as they are, not strict")
    for judge in judges.PACKAGES:
        if (why := judges.missing(judge)) is not None:
            say(why)


if __name__ == "__main__":
    main()
