"""Write the pages of the reference."""

import sys

from tests.reference.pages import FOLDER, pages


def main() -> None:
    """Write all pages, and remove those that are no longer made."""
    made = pages()
    for gone in set(FOLDER.rglob("*.md")) - made.keys():
        gone.unlink()
    for path, text in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
