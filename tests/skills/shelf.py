"""Skills for tests: their files, their entries, and a config whose server offers them."""

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests import warm

SERVING = str(Path(__file__).with_name("serving.py"))
Entry = dict[str, Any]


def manifest(name: str, about: str = "Do it well", body: str = "First look, then act.") -> str:
    return f"---\nname: {name}\ndescription: {about}\n---\n\n{body}\n"


def described(uri: str, content: str | bytes) -> Entry:
    raw = content.encode() if isinstance(content, str) else content
    return {"uri": uri, "digest": f"sha256:{sha256(raw).hexdigest()}", "size": len(raw)}


def entry(uri: str, files: dict[str, str], **frontmatter: Any) -> Entry:
    """The entry of a skill with these files, by URI."""
    about = {"name": uri.split("/")[-2], "description": "Do it well", **frontmatter}
    return {"uri": uri, "frontmatter": about, "resources": [described(*file) for file in files.items()]}


PDF = "skill://pdf/SKILL.md"
FORMS = "skill://pdf/references/FORMS.md"
FILES = {PDF: manifest("pdf"), FORMS: "Fill in every field.\n"}


@dataclass
class Shelf:
    """A server whose skills a test changes."""

    folder: Path
    era: str = "modern"
    alias: str = "shelf"

    def put(self, files: dict[str, Any] | None = None, *skills: Entry, **more: Any) -> None:
        """Offer these files and skills, by default one skill of two files."""
        offer = {"files": FILES if files is None else files, "skills": skills or [entry(PDF, FILES)], **more}
        self._file.write_text(json.dumps(offer))

    @property
    def server(self) -> dict[str, Any]:
        return {"command": warm.python(), "args": [SERVING, str(self._file), self.era]}

    def config(self, **settings: Any) -> dict[str, Any]:
        return {"servers": {self.alias: self.server}, **settings}

    @property
    def asked(self) -> list[str]:
        """The methods that the server was asked for, with their URIs."""
        return Path(f"{self._file}.asked").read_text().splitlines()

    @property
    def _file(self) -> Path:
        return self.folder / f"{self.alias}.json"
