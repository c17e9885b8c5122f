"""The lines of `python -m bench`, and the keys of its JSON."""

import json
from typing import Any

from bench.__main__ import as_json
from bench.lines import lines
from bench.measure import Outcome

EXAMPLE = Outcome(
    name="a line", raw=2.0, toolbus=1.0, limit=1.0, peers={"another client": 3.0}, bar=None, rounds=1
)


def recorded() -> dict[str, Any]:
    """Each line with its unit and loop, and the keys of the document and of its lines."""
    document = json.loads(as_json([EXAMPLE], []))
    found: dict[str, Any] = {f"line: {line.name}": [line.unit, line.loop] for line in lines("")}
    return {**found, "document": sorted(document), "document.lines": sorted(document["lines"][0])}
