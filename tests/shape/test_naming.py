"""Names: legal, unique, the same on every run and for any set of running servers."""

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inside.core import Catalog
from tests.inside.shape import may_name, named, selected, shaped
from tests.properties import modest
from toolbus.records import Origin, ToolSpec

LEGAL = re.compile(r"[A-Za-z0-9_-]{1,64}")


def tools(**servers: list[str]) -> list[ToolSpec]:
    return [ToolSpec(name=t, origin=Origin(s, t)) for s, names in servers.items() for t in names]


def names(template: str, specs: list[ToolSpec], **prefixes: str | None) -> list[str]:
    servers = dict.fromkeys((spec.origin.server for spec in specs), None) | prefixes
    return [spec.name for spec in named(template, servers)(specs)]


def test_auto_puts_the_server_in_front_unless_the_tool_says_it_already() -> None:
    own = ["git_log", "git-log", "gitLog", "blame", "git", "gitter", "github_x"]
    assert names("auto", tools(git=own)) == [
        *("git_log", "git-log", "gitLog"),
        *("git_blame", "git_git", "git_gitter", "git_github_x"),
    ]


@pytest.mark.parametrize(
    ("alias", "tool", "name"),
    [
        ("hubspot", "hubspot-list-objects", "hubspot-list-objects"),
        ("hubspot", "hubspot.list", "hubspot_list"),
        ("hubspot", "hubspot/list", "hubspot_list"),
        ("hubspot", "hubspotList", "hubspotList"),
        ("hubspot", "hubspotlist", "hubspot_hubspotlist"),
        ("s3", "s3List", "s3List"),
        ("AWS", "AWSome", "AWS_AWSome"),
        ("my.server", "my.server.list", "my_server_list"),
        ("my-server", "my-server_list", "my-server_list"),
        ("my-server", "my_server_list", "my-server_my_server_list"),
    ],
)
def test_a_tool_that_begins_with_its_server_keeps_its_name(alias: str, tool: str, name: str) -> None:
    assert names("auto", tools(**{alias: [tool]})) == [name]
    assert may_name("auto", {alias: None, "other": None}, alias, name)
    assert not may_name("auto", {alias: None, "other": None}, "other", name)
    # Though the other server has no prefix, and listed such a tool first.
    specs = tools(first=[name], **{alias: [tool]})
    found = names("auto", specs, first="")
    assert (found[0] != name, found[1]) == (True, name)


def test_a_template_is_followed_to_the_letter() -> None:
    assert names("mcp_{server}_{tool}", tools(git=["git_log"])) == ["mcp_git_git_log"]


def test_a_prefix_takes_the_place_of_the_alias_and_an_empty_one_gives_own_names() -> None:
    assert names("auto", tools(files=["read"]), files="fs") == ["fs_read"]
    assert names("auto", tools(files=["read"]), files="") == ["read"]


@pytest.mark.parametrize("tool", ["read.file", "a b", "lösche", "💥", "x" * 200, "a/b"])
def test_every_name_is_legal(tool: str) -> None:
    [name] = names("auto", tools(**{"my server": [tool]}))
    assert LEGAL.fullmatch(name)


def test_two_origins_that_spell_the_same_name_both_stay_callable() -> None:
    specs = named("auto", {"a": None, "a_b": None})(tools(a=["b_get"], a_b=["get"]))
    catalog = Catalog(specs)
    assert len(catalog) == 2
    assert str(catalog["a_b_get"].origin) == "a_b/get"
    assert str(catalog["a/b_get"].origin) == "a/b_get"


def test_which_servers_are_up_does_not_change_a_name() -> None:
    servers = {"a": None, "a_b": None}
    both = tools(a=["b_get", "other"], a_b=["get"])
    name = named("auto", servers)
    together = {str(spec.origin): spec.name for spec in name(both)}
    alone = {
        str(spec.origin): spec.name
        for server in servers
        for spec in name([spec for spec in both if spec.origin.server == server])
    }
    assert alone == together


def test_the_order_in_which_tools_arrive_does_not_change_a_name() -> None:
    specs = tools(a=["x y", "x.y", "x_y"], b=["z" * 80, "z" * 81])
    name = named("auto", {"a": None, "b": None})
    there = {str(spec.origin): spec.name for spec in name(specs)}
    back = {str(spec.origin): spec.name for spec in name(specs[::-1])}
    assert there == back
    assert len(set(there.values())) == 5
    assert there["a/x_y"] == "a_x_y"


def test_a_template_without_the_server_is_settled_by_the_order_of_the_config() -> None:
    specs = tools(first=["get"], second=["get"])
    assert names("{tool}", specs)[0] == "get"
    assert names("{tool}", specs)[1].startswith("get_")
    assert names("{tool}", specs[::-1], first=None, second=None) != names("{tool}", specs)


def test_include_and_exclude_are_patterns_on_the_servers_own_names() -> None:
    rules = {"a": (("read_*", "list"), ("read_secret",))}
    specs = tools(a=["read_file", "read_secret", "list", "write"], b=["write"])
    assert [str(spec.origin) for spec in shaped(specs, [selected(rules)])] == [
        "a/read_file",
        "a/list",
        "b/write",
    ]


ALIASES = st.text(st.sampled_from("abB_.- é"), min_size=1, max_size=4)
NAMES = st.text(st.sampled_from("abB_.- é"), max_size=70)
SERVERS = st.dictionaries(ALIASES, st.lists(NAMES, max_size=4, unique=True), min_size=1, max_size=4)
TEMPLATES = st.sampled_from(["auto", "{server}_{tool}", "mcp_{server}_{tool}", "{server}.{tool}"])


@modest
@given(TEMPLATES, SERVERS)
def test_any_names_at_all_become_legal_and_unique_and_keep_their_origin(
    template: str, servers: dict[str, list[str]]
) -> None:
    specs = tools(**servers)
    shaped_specs = named(template, dict.fromkeys(servers))(specs)
    assert [spec.origin for spec in shaped_specs] == [spec.origin for spec in specs]
    found = [spec.name for spec in shaped_specs]
    assert all(LEGAL.fullmatch(name) for name in found)
    assert len(set(found)) == len(found)


@modest
@given(TEMPLATES, SERVERS, st.randoms())
def test_names_do_not_depend_on_the_order_of_arrival_nor_on_who_is_up(
    template: str, servers: dict[str, list[str]], chance: random.Random
) -> None:
    bare = chance.choice(list(servers)) if template == "auto" else None
    name = named(template, {alias: "" if alias == bare else None for alias in servers})
    specs = tools(**servers)
    before = {spec.origin: spec.name for spec in name(specs)}
    who = chance.sample(list(servers), len(servers) // 2 + 1)
    up = [spec for spec in specs if spec.origin.server in who]
    chance.shuffle(up)
    assert {spec.origin: spec.name for spec in name(up)} == {spec.origin: before[spec.origin] for spec in up}


def test_aliases_that_become_one_when_made_legal_do_not_share_names() -> None:
    name = named("auto", {"a b": None, "a_b": None})
    first, second = name(tools(**{"a b": ["x"], "a_b": ["x"]}))
    assert (first.name, second.name[:6]) == ("a_b_x", "a_b_x_")
    assert [spec.name for spec in name([second.renamed("x")])] == [second.name]


def test_servers_of_a_template_without_server_and_of_one_prefix_share_names() -> None:
    assert names("mcp_{tool}", tools(a=["x"], b=["y"])) == ["mcp_x", "mcp_y"]
    assert names("auto", tools(a=["x"], b=["y"]), a="fs", b="fs") == ["fs_x", "fs_y"]
