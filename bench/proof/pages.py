"""The pages below docs/proof: the result of each part stands right below its command."""

import re

from bench.proof.parts import Part
from bench.sides import ROOT

FOLDER = ROOT / "docs" / "proof"


def with_report(page: str, name: str, report: str) -> str:
    """The page with this report below the command of the part."""
    command = re.escape(f'$ make proof ARGS="--only {name}"')
    block = re.compile(rf"(```console\n{command}\n```\n\n```text\n).*?(?=```\n)", re.DOTALL)
    if not block.search(page):
        raise ValueError(f"the page of {name!r} has no text block right after its command")
    return block.sub(lambda found: f"{found[1]}{report}\n", page, count=1)


def write(part: Part, report: str) -> None:
    """Put a report into its page."""
    page = FOLDER / f"{part.page}.md"
    page.write_text(with_report(page.read_text(encoding="utf-8"), part.name, report), encoding="utf-8")
