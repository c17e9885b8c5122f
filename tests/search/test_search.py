"""Find tools: always by name, otherwise by the words they share with the query."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inside.search import Index, key, words
from tests.servers.asking import asking
from tests.servers.everyday import everyday
from toolbus import Toolbus
from toolbus.records import JSON, Origin, SearchHit, ToolSpec
from toolbus.sync import SyncToolbus

TOOLS = {
    "github": {
        "create_issue": "Open a new issue in a repository.",
        "list_commits": "List the commits of a branch.",
        "search_code": "Search for code in all repositories.",
    },
    "files": {
        "read_file": "Read the complete contents of a file from disk.",
        "move_file": "Move or rename files and directories.",
    },
    "disk": {"read_file": "Read the complete contents of a file from the disk."},
    "weather": {"getForecast": "Temperature and rain for the next days at a place."},
}


def _spec(server: str, tool: str, description: str, **arguments: str) -> ToolSpec:
    properties: dict[str, JSON] = {name: {"description": about} for name, about in arguments.items()}
    schema: dict[str, JSON] = {"type": "object", "properties": properties}
    origin = Origin(server=server, tool=tool)
    return ToolSpec(name=f"{server}_{tool}", origin=origin, description=description, input_schema=schema)


SPECS = [_spec(server, tool, about) for server, tools in TOOLS.items() for tool, about in tools.items()]
INDEX = Index(SPECS)


def _names(hits: Sequence[SearchHit]) -> list[str]:
    return [hit.name for hit in hits]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("github_create_issue", "github_create_issue"),
        ("github/create_issue", "github_create_issue"),
        ("create issue", "github_create_issue"),
        ("createIssue", "github_create_issue"),
        ("CREATE-ISSUE", "github_create_issue"),
        ("creat_issue", "github_create_issue"),
        ("craete_issue", "github_create_issue"),
        ("create_isssue", "github_create_issue"),
        ("please use create_issue for this file", "github_create_issue"),
        ("get forecast", "weather_getForecast"),
        ("get_forecats", "weather_getForecast"),
    ],
)
def test_a_named_tool_comes_first(query: str, first: str) -> None:
    hit = INDEX.search([query])[0]
    assert hit.name == first
    assert hit.score == 1.0
    assert hit.reason.startswith("its name")


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("will it be raining tomorrow, and which temperatures", "weather_getForecast"),
        ("rename a directory", "files_move_file"),
        ("which commits are on this branch", "github_list_commits"),
    ],
)
def test_others_are_ranked_by_words(query: str, first: str) -> None:
    hit = INDEX.search([query])[0]
    assert hit.name == first
    assert hit.reason.startswith("words: ")
    assert hit.why == hit.reason


@pytest.mark.parametrize(
    ("query", "first", "reason"),
    [
        ("open a ticket for a bug", "github_create_issue", "words: open, issue for ticket, issue for bug"),
        ("create a bug report", "github_create_issue", "words: create, issue for bug, create for report"),
        ("look for code", "github_search_code", "words: search for look, code"),
        ("show the document", "files_read_file", "words: read for show, file for document"),
        ("rename something", "files_move_file", "words: rename"),
    ],
)
def test_names_are_found_by_synonyms_of_their_words(query: str, first: str, reason: str) -> None:
    hit = INDEX.search([query])[0]
    assert (hit.name, hit.reason) == (first, reason)


def test_a_synonym_counts_less_than_the_word_and_only_in_a_name() -> None:
    abouts = {"make_ticket": "", "create_issue": "", "sell": "A ticket for the show.", "fly": "An issue."}
    index = Index([_spec("shop", tool, about) for tool, about in abouts.items()])
    # A synonym in a name counts more than the word itself in a description.
    assert _names(index.search(["ticket"])) == ["shop_make_ticket", "shop_create_issue", "shop_sell"]


def test_a_phrase_has_synonyms() -> None:
    index = Index([_spec("git", tool, "") for tool in ("create_pull_request", "merge_branch", "pull")])
    for query in ("open a PR", "open a merge request"):
        assert _names(index.search([query]))[0] == "git_create_pull_request"


def test_the_best_for_each_query_come_first() -> None:
    hits = INDEX.search(["rename a directory", "temperature at a place", "commits of a branch"], limit=3)
    assert set(_names(hits)) == {"files_move_file", "weather_getForecast", "github_list_commits"}


def test_near_duplicates_are_one_hit() -> None:
    hits = INDEX.search(["read a file from disk"])
    assert hits[0].name in ("files_read_file", "disk_read_file")
    assert {hits[0].name, *hits[0].alternatives} == {"files_read_file", "disk_read_file"}
    assert len({*_names(hits)} & {"files_read_file", "disk_read_file"}) == 1


def test_arguments_and_texts_in_other_scripts_count() -> None:
    index = Index(
        [_spec("a", "one", "", isbn="The number of a book"), _spec("b", "two", "使用必应搜索指定的关键词")]
    )
    assert _names(index.search(["isbn of the book"])) == ["a_one"]
    assert _names(index.search(["关键词搜索"])) == ["b_two"]


@pytest.mark.parametrize("query", ["", "   ", "!?", "the of and"])
def test_nothing_fits_a_query_without_words(query: str) -> None:
    assert INDEX.search([query]) == ()


def test_a_huge_query_is_answered() -> None:
    assert INDEX.search(["create issue " * 10_000, "x" * 100_000])[0].name == "github_create_issue"
    assert len(INDEX.search(["file"] * 1_000, limit=1)) == 1


@given(st.lists(st.text(), max_size=3), st.text(), st.text(), st.text())
def test_any_text_can_be_indexed_and_searched(
    queries: list[str], tool: str, text: str, argument: str
) -> None:
    index = Index([*SPECS, _spec("any", tool, text, **{argument: text})])
    for hit in index.search(queries):
        assert 0 <= hit.score <= 1
        assert hit.name not in hit.alternatives
    if key(tool):
        found = index.search([tool], limit=len(index))
        assert any(f"any_{tool}" in (hit.name, *hit.alternatives) for hit in found)


def test_words_of_identifiers_are_taken_apart() -> None:
    assert words("getHTTPResponse_codes2") == words("get http response code 2")
    assert words("listing repositories") == words("list repository")


def test_one_of_ten_thousand_tools_is_found_by_name() -> None:
    specs = [_spec(f"s{number % 50}", f"tool_{number}", f"Does thing {number}.") for number in range(10_000)]
    assert Index(specs).search(["tool_7777"], limit=1)[0].name == "s27_tool_7777"


@pytest.mark.anyio
async def test_a_bus_searches_what_it_shows() -> None:
    async with Toolbus({"servers": {"day": {"server": everyday()}, "ask": {"server": asking()}}}) as bus:
        assert bus.search("book a table")[0].name == "ask_book"
        assert bus.search(["ask/book"], limit=1)[0].spec is bus.catalog["ask_book"]
        narrow = bus.view(servers=["day"])
        assert all(hit.spec.origin.server == "day" for hit in narrow.search(["book a table", "echo"]))
        await bus.remove_server("ask")
        assert "ask_book" not in _names(bus.search("book")), "the index follows the catalog"
        with pytest.raises(ValueError, match="limit"):
            bus.search("book", limit=0)


def test_the_same_without_a_loop() -> None:
    with SyncToolbus({"servers": {"ask": {"server": asking()}}}) as bus:
        assert bus.search(["book a table"])[0].name == "ask_book"
