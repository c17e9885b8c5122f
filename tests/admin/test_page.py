"""docs/administrators.md shows what is really printed."""

from pathlib import Path

from tests.admin.conftest import Site
from tests.cli.running import toolbus
from tests.codeblocks import code_blocks
from tests.inside.config import read_administrator

PAGE = Path(__file__).parents[2] / "docs" / "administrators.md"


def test_the_page_shows_what_check_prints(site: Site, tmp_path: Path) -> None:
    policy, shown, _, _ = code_blocks(PAGE.read_text(encoding="utf-8"))
    site.write("".join(line for line in policy.text.splitlines(True) if not line.startswith("require")))
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "toolbus.yaml").write_text("servers:\n  shell: {command: bash, args: [-c, cat ~/notes]}\n")
    env = {**site.env, "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
    toolbus("trust", "--yes", folder=folder, env=env)
    done = toolbus("check", folder=folder, env=env)
    printed = (done.stdout + done.stderr).replace(str(site.base), "/etc/xdg")
    assert [line.rstrip() for line in printed.splitlines()] == shown.text.splitlines()


def test_the_files_on_the_page_are_valid(site: Site) -> None:
    policy, _, hooks, required = code_blocks(PAGE.read_text(encoding="utf-8"))
    site.write(policy.text)
    [found] = read_administrator().files
    assert found.policy.require == ("lock",)
    site.write(hooks.text)
    [found] = read_administrator().files
    assert found.policy.allow.hooks is not None
    site.write(required.text)
    [found] = read_administrator().files
    assert (found.policy.require, found.sandbox.net) == (("lock", "sandbox"), False)
