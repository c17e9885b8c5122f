"""Five large documents of public APIs: `python -m tests.openapi.documents` prints what becomes of each."""

import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from tests.inside.openapi import Api, ApiSource, OpenApi, read_api, read_document
from tests.inside.shape import DIALECTS, Dialect, converted
from tests.interop.servers import INTEROP
from tests.shape import judges
from tests.shape.providers import CHECKERS
from toolbus.records import Origin, ToolSpec

FOLDER = INTEROP / "openapi-documents"
METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")


@dataclass(frozen=True, kw_only=True)
class PublicApi:
    """A document, its digest, and what is known of it."""

    file: str
    digest: str
    base_url: str | None = None

    @property
    def path(self) -> Path:
        return FOLDER / self.file

    def content(self) -> bytes:
        """The document; an AssertionError if it is another one."""
        content = self.path.read_bytes()
        assert sha256(content).hexdigest() == self.digest, f"{self.file} is another document"
        return content

    def api(self) -> Api:
        """Its tools, as toolbus reads them."""
        setting = OpenApi(document=str(self.path), base_url=self.base_url)
        return read_api(read_document(self.content()), ApiSource(setting=setting, base_url=self.base_url))


APIS = {
    "GitHub": PublicApi(
        file="github.com/api.github.com.json",
        digest="7cbf40637b3d507b741023c3d829fca4d467c9d4d717e45787aaccee61ed3acf",
    ),
    "Stripe": PublicApi(
        file="stripe.com.json",
        digest="9dee63b10231f8f6691208587cb63117a682fbc70b8820df881904cf7945b384",
    ),
    "Kubernetes": PublicApi(
        file="kubernetes.io.json",
        digest="079be56450262bd25f251472bb1aadff7ce0e3bfd74487934666269c814abd25",
        base_url="https://kubernetes.local",
    ),
    "DigitalOcean": PublicApi(
        file="digitalocean.com.json",
        digest="a64b1410b05a24ded3996f1d0128c7bce4c75f855d276af8a600639585e91462",
    ),
    "Jira": PublicApi(
        file="atlassian.com/jira.json",
        digest="a71ac344c9adad322517f851f9eaf7aa0dddced557851a07ec32cf74263d252c",
    ),
}


def specs(name: str, api: Api) -> list[ToolSpec]:
    """The tools of an API."""
    return [
        ToolSpec(
            name=one.name,
            origin=Origin(name, one.name),
            description=one.description,
            title=one.title,
            input_schema=one.input_schema,
            output_schema=one.output_schema,
        )
        for one in api.operations
    ]


def illegal(spec: ToolSpec, dialect: Dialect) -> list[str]:
    """What a provider would say against a tool."""
    value = converted(spec, dialect).value
    return [*CHECKERS[dialect](value), *judges.refusals(dialect, value)]


def main(say: Callable[[str], None] = print) -> None:
    """Print a row for each document."""
    say("| API | operations | tools | refused | illegal in a dialect | seconds |")
    say("|---|---|---|---|---|---|")
    reasons: Counter[str] = Counter()
    for name, public in APIS.items():
        started = time.perf_counter()
        api = public.api()
        seconds = time.perf_counter() - started
        tools = specs(name, api)
        problems = [found for spec in tools for dialect in DIALECTS if (found := illegal(spec, dialect))]
        reasons.update(re.sub(r"'[^']*'|\(at .*", "…", one.reason) for one in api.refused)
        total = len(tools) + len(api.refused)
        say(f"| {name} | {total:,} | {len(tools):,} | {len(api.refused)} | {len(problems)} | {seconds:.1f} |")
    for reason, count in reasons.most_common():
        say(f"{count} refused: {reason}")


if __name__ == "__main__":
    sys.exit(main())
