"""Write the pages of the site into .site, with the navigation of docs/README.md; `make site` then builds it.

The pages are those of docs, and the pages at the root of the repository that they link to. The slugs of
headings, and links to files that are not on the site, are adapted.
"""

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.pages import ROOT

SITE = ROOT / ".site"
PAGES = SITE / "pages"
FROM_ROOT = ("README", "SECURITY", "CONTRIBUTING", "CHANGELOG", "RELEASING")
SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(!?)\[([^\[\]]*)\]\(([^()\s]+)\)")
SCRIPTS = {"mermaid/dist/mermaid.min.js": "mermaid.js", "iframe-worker/shim/index.js": "iframe-worker.js"}
CONTRAST = """\
[data-md-color-scheme="default"] { --md-typeset-a-color: #3247b3; --md-accent-fg-color: #3247b3; }
[data-md-color-scheme="slate"] { --md-typeset-a-color: #93a4ff; --md-accent-fg-color: #93a4ff; }
"""
"""The color of links, whose contrast is too low in the theme."""

Nav = list[dict[str, "str | Nav"]]


def main() -> None:
    """Write pages, scripts and the config."""
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES)
    for name in FROM_ROOT:
        shutil.copy(
            ROOT / f"{name}.md", PAGES / f"{name.lower()}.md" if name != "README" else PAGES / "about.md"
        )
    for page in PAGES.rglob("README.md"):
        page.rename(page.with_name("index.md"))
    for page in PAGES.rglob("*.md"):
        page.write_text(adapted(page, page.read_text("utf-8")), "utf-8")
    (PAGES / "assets").mkdir()
    (PAGES / "assets" / "contrast.css").write_text(CONTRAST, "utf-8")
    for source, name in SCRIPTS.items():
        shutil.copy(SITE / "node_modules" / source, PAGES / "assets" / name)
    config = (ROOT / "zensical.toml").read_text("utf-8")
    lines = f"nav = {_toml(navigation())}\n"
    (SITE / "zensical.toml").write_text(config.replace("site_dir", f"{lines}site_dir", 1), "utf-8")


def adapted(page: Path, text: str) -> str:
    """A page with links to the pages of the site; a link to anything else becomes its text."""
    if page.is_relative_to(PAGES / "reference" / "python"):
        text = text.replace("```text\n", "```python\n")
    if "```mermaid" in text:  # or the theme would load it from another host
        depth = len(page.relative_to(PAGES).parts) - 1
        text += f'\n<script src="{"../" * depth}assets/mermaid.js"></script>\n'
    return LINK.sub(lambda found: _link(page, *found.groups()), text).replace(
        "```console", "```shell-session"
    )


def _link(page: Path, mark: str, label: str, target: str) -> str:
    file, _, anchor = target.partition("#")
    if "://" in target or not file:
        return f"{mark}[{label}]({target})"
    known = site_path(page, file)
    if known is None:
        return label
    return f"{mark}[{label}]({known}{'#' + anchor if anchor else ''})"


def site_path(page: Path, file: str) -> str | None:
    """The relative path on the site of a file that a page links to; None if it is not there."""
    depth = len(page.relative_to(PAGES).parts) - 1
    at_root = page.parent == PAGES and page.stem.upper() in {*FROM_ROOT, "ABOUT"}
    source = (ROOT if at_root else ROOT / "docs" / page.parent.relative_to(PAGES)) / file
    path = source.resolve()
    if path.is_relative_to(ROOT / "docs") and path.is_file():
        inner = path.relative_to(ROOT / "docs").as_posix()
        return "../" * depth + re.sub(r"\bREADME\.md$", "index.md", inner)
    if path.parent == ROOT and path.suffix == ".md" and path.stem in FROM_ROOT:
        return "../" * depth + ("about" if path.stem == "README" else path.stem.lower()) + ".md"
    return None


def navigation() -> Nav:
    """The sections of docs/README.md with the first link of each line; pages in folders are below theirs."""
    text = (PAGES / "index.md").read_text("utf-8")
    nav: Nav = [{"Home": "index.md"}]
    for title, body in SECTION.findall(text):
        entries: Nav = []
        for _, label, target in LINK.findall(body):
            file = target.partition("#")[0]
            if file.endswith("/index.md"):
                below: Nav = [{label: file}, *_below(PAGES / file)]
                entries.append({label: below})
            elif file.endswith(".md") and not any(file in entry.values() for entry in entries):
                entries.append({label[0].upper() + label[1:]: file})
        if entries:
            nav.append({title: entries})
    return nav


def _below(index: Path) -> Iterator[dict[str, "str | Nav"]]:
    """The other pages in the folder of an index, by their headings."""
    for page in sorted(index.parent.rglob("*.md")):
        if page != index:
            title = re.search(r"^# (.+)$", page.read_text("utf-8"), re.MULTILINE)
            assert title, page
            yield {title[1]: page.relative_to(PAGES).as_posix()}


def _toml(nav: Nav) -> str:
    entries = (
        f"{{ {json.dumps(title)} = {json.dumps(value) if isinstance(value, str) else _toml(value)} }}"
        for entry in nav
        for title, value in entry.items()
    )
    return f"[{', '.join(entries)}]"


if __name__ == "__main__":
    sys.exit(main())
