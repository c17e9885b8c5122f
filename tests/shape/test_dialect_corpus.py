"""Real definitions: all convert, all are taken, hardly any loses its meaning, and it is quick."""

import pytest

from tests.conftest import sampled
from tests.inside.shape import DIALECTS, Dialect, converted
from tests.shape import corpus, judges, table
from tests.shape.providers import CHECKERS
from tests.timing import fastest
from toolbus.records import ToolSpec

LARGEST_SHARE = 0.005  # of definitions that may have a permissive place


@pytest.fixture
def specs(request: pytest.FixtureRequest) -> list[ToolSpec]:
    """The definitions; without --full, about 200 of a large corpus."""
    found = corpus.specs()
    return found[:: 1 if request.config.getoption("--full") else max(1, len(found) // 200)]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_definition_is_taken(specs: list[ToolSpec], dialect: Dialect) -> None:
    refused = {
        str(spec.origin): found
        for spec in specs
        if (found := CHECKERS[dialect](converted(spec, dialect).value))
    }
    assert refused == {}


@pytest.mark.parametrize("dialect", list(judges.PACKAGES)[:-1])
def test_the_providers_own_package_takes_every_definition(specs: list[ToolSpec], dialect: Dialect) -> None:
    if (why := judges.missing(dialect)) is not None:
        pytest.skip(why)
    refused = {
        str(s.origin): f for s in specs if (f := judges.refusals(dialect, converted(s, dialect).value))
    }
    assert refused == {}


def test_pydantic_ai_finds_nothing_to_rewrite_for_google(specs: list[ToolSpec]) -> None:
    if (why := judges.missing("pydantic-ai")) is not None:
        pytest.skip(why)
    rewritten = {
        str(s.origin): f for s in specs if (f := judges.google_rewrites(converted(s, "google").value))
    }
    assert rewritten == {}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_hardly_any_definition_is_permissive(dialect: Dialect) -> None:
    specs = corpus.specs()
    permissive = [str(spec.origin) for spec in specs if converted(spec, dialect).grade == "permissive"]
    assert len(permissive) <= LARGEST_SHARE * len(specs), permissive


@pytest.mark.parametrize("dialect", sampled(["openai", "google"], "google"))
def test_ten_times_the_tools_take_ten_times_as_long(dialect: Dialect) -> None:
    def linear(small: float, large: float) -> bool:
        return large <= 12 * small

    small, large = fastest(
        lambda: table.seconds(1_000, dialect), lambda: table.seconds(10_000, dialect), until=linear
    )
    assert linear(small, large), f"1,000 take {small:.2f} s, 10,000 take {large:.2f} s"


def test_the_table_names_every_dialect() -> None:
    lines: list[str] = []
    table.main(lines.append, most=20, timed=20)
    assert [line.split()[0] for line in lines[2:8]] == list(DIALECTS)
