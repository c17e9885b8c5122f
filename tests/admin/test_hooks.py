"""An administrator decides which hooks a config may have: by name if installed, by path if beside it."""

from pathlib import Path
from typing import Any

import pytest

from tests.admin.conftest import Site
from tests.cli.running import toolbus, write_config
from tests.inside.config import AdministratorPolicy, PolicyFile
from tests.stations.places import TRACE, in_memory, modules, written
from toolbus import ConfigError, Toolbus

pytestmark = pytest.mark.anyio
INSTALLED = "tests.stations.samples:Stamps"


def refusal(policy: dict[str, Any], use: str, *paths: str) -> str | None:
    """The list that refuses a hook."""
    file = PolicyFile(path="policy.yaml", policy=AdministratorPolicy(**policy))
    found = file.hook_refusal((use, use), paths)
    return found and found[0]


@pytest.mark.parametrize(
    ("policy", "use", "paths", "refused"),
    [
        ({}, "a.b:C", (), None),
        ({"allow": {"hooks": []}}, "a.b:C", (), "allow.hooks"),
        ({"allow": {"hooks": ["a.*:*"]}}, "a.b:C", (), None),
        ({"allow": {"hooks": ["a.*:*"]}}, "b.a:C", (), "allow.hooks"),
        ({"allow": {"hooks": ["acme-quota"]}}, "acme-quota", (), None),
        # A file beside a config can have any name.
        ({"allow": {"hooks": ["a.*:*"]}}, "a.b:C", ("/home/ann/work/a/b.py",), "allow.hooks"),
        ({"allow": {"hooks": ["/srv/hooks"]}}, "a:C", ("/srv/hooks/a.py",), None),
        ({"allow": {"hooks": ["/srv/hooks"]}}, "a:C", ("/srv/hooks/a.py", "/tmp/b.py"), "allow.hooks"),
        ({"allow": {"hooks": ["/srv/hooks"]}}, "a:C", (), "allow.hooks"),
        ({"deny": {"hooks": ["a*"]}}, "a.b:C", ("/srv/a/b.py",), "deny.hooks"),
        ({"deny": {"hooks": ["/tmp"]}}, "a:C", ("/srv/x.py", "/tmp/b.py"), "deny.hooks"),
        ({"deny": {"hooks": ["b*"]}}, "a.b:C", (), None),
        ({"allow": {"argv": [["uvx", "**"]]}}, "a.b:C", (), "allow.hooks"),
        ({"allow": {"packages": []}}, "a.b:C", (), "allow.hooks"),
        ({"allow": {"urls": []}}, "a.b:C", (), None),
        ({"require": ["sandbox"]}, "a.b:C", (), "allow.hooks"),
        ({"require": ["sandbox"], "allow": {"hooks": ["a.b:C"]}}, "a.b:C", (), None),
    ],
)
def test_the_lists(policy: dict[str, Any], use: str, paths: tuple[str, ...], refused: str | None) -> None:
    assert refusal(policy, use, *paths) == refused


@pytest.mark.parametrize("pattern", ["", "a b", "../x", "relative/x", "/srv/../x", "a:b:c"])
def test_a_wrong_pattern_is_an_error(pattern: str) -> None:
    with pytest.raises(ConfigError):
        refusal({"allow": {"hooks": [pattern]}}, "a:B")


async def test_a_refused_hook_stops_the_start_and_is_not_imported(site: Site, tmp_path: Path) -> None:
    site.write("deny: {hooks: ['trace:*']}")
    modules(tmp_path, trace=TRACE)
    with pytest.raises(
        ConfigError, match="the hook 'trace:hook' is denied by 'trace:\\*'; ask the administrator"
    ):
        Toolbus(written(tmp_path, ["trace:hook"]))
    assert not (tmp_path / "imported").exists()


async def test_a_reload_to_a_refused_hook_changes_nothing(site: Site) -> None:
    site.write(f"allow: {{hooks: ['{INSTALLED}']}}")
    servers = in_memory()
    async with Toolbus({"servers": servers, "hooks": [INSTALLED]}) as bus:
        with pytest.raises(ConfigError, match="is not listed"):
            await bus.reload({"servers": servers, "hooks": ["tests.stations.samples:Most"]})
        assert [entry.use for entry in bus.config.hooks] == [INSTALLED]


def test_check_says_who_refuses_it(site: Site, tmp_path: Path) -> None:
    site.write("allow: {hooks: []}")
    folder = tmp_path / "home" / "work"
    folder.mkdir(parents=True)
    modules(folder, trace=TRACE)
    write_config(folder, {"own": {"command": "true"}}, hooks=["trace:hook"])
    run = toolbus("check", folder=folder, env=site.env)
    assert run.returncode == 2
    assert f"{site.file}: allow.hooks: the hook 'trace:hook' is not listed" in run.stderr
    assert not (folder / "imported").exists()
