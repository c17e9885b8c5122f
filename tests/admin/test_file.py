"""The administrator files that apply, that are ignored, and that stop everything."""

import logging
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from platformdirs import site_config_dir

from tests.admin.conftest import NOBODY, Site
from tests.inside.config import (
    AdministratorPolicy,
    LaunchList,
    PolicyFile,
    policy_folders,
    read_administrator,
)
from toolbus import Toolbus
from toolbus.errors import ConfigError

GOOD = "allow: {argv: [x]}\n"
SERVERS = {"servers": {"x": {"command": "x"}}}


def test_a_file_is_read_as_it_is_written(site: Site) -> None:
    path = site.write(
        """
        allow:
          argv: ["npx -y '@scope/*' **", [/usr/bin/git-mcp, a b]]
          urls: ["https://*.example.com/*"]
          packages: ["npm:@scope/*", "pypi:mcp-server-*"]
        deny: {argv: [bash **], urls: ["http://*"], packages: ["npm:evil-*"]}
        require: [lock, sandbox, audit]
        """
    )
    policy = AdministratorPolicy(
        allow=LaunchList(
            argv=(("npx", "-y", "@scope/*", "**"), ("/usr/bin/git-mcp", "a b")),
            urls=("https://*.example.com/*",),
            packages=("npm:@scope/*", "pypi:mcp-server-*"),
        ),
        deny=LaunchList(argv=(("bash", "**"),), urls=("http://*",), packages=("npm:evil-*",)),
        require=("lock", "sandbox", "audit"),
    )
    found = read_administrator()
    assert (found.files, found.ignored) == ((PolicyFile(path=str(path), policy=policy),), ())


def test_without_a_file_everything_is_permitted(site: Site, tmp_path: Path) -> None:
    found = read_administrator([site.folder, tmp_path / "missing", site.file / "below" / "a file"])
    assert (found.files, found.ignored) == ((), ())


def test_a_variable_that_points_somewhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fixed folder is also searched."""
    monkeypatch.setenv("XDG_CONFIG_DIRS", "/somewhere:relative:/else")
    folders = [str(folder) for folder in policy_folders()]
    fixed = [folder for folder in folders if folder not in ("/somewhere/toolbus", "/else/toolbus")]
    assert len(folders) == 3
    assert fixed in (["/etc/xdg/toolbus"], ["/Library/Application Support/toolbus"])
    monkeypatch.setenv("XDG_CONFIG_DIRS", "")
    assert [str(folder) for folder in policy_folders()] == fixed


@pytest.mark.parametrize("value", [None, "", "/a:/b", "/a::relative:/b/", "~/x:/a"])
def test_the_folders_are_those_of_platformdirs_and_the_fixed_one(
    value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CONFIG_DIRS", raising=False)
    fixed = policy_folders()
    if value is not None:
        monkeypatch.setenv("XDG_CONFIG_DIRS", value)
    found = site_config_dir("toolbus", appauthor=False, multipath=True).split(os.pathsep)
    assert policy_folders() == list(dict.fromkeys([*fixed, *map(Path, found)]))


def test_each_of_several_files_counts(site: Site, tmp_path: Path) -> None:
    site.write(GOOD)
    other = tmp_path / "other"
    other.mkdir(mode=0o755)
    (other / "policy.yaml").write_text("deny: {argv: [x]}")
    found = read_administrator([site.folder, other])
    assert [file.path for file in found.files] == [str(site.file), str(other / "policy.yaml")]


@pytest.mark.parametrize("what", ["file owner", "folder owner", "file mode", "folder mode", "sticky folder"])
def test_a_file_that_another_user_may_have_written(
    what: str, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """It does not count, and a warning says how it would."""
    site.write(GOOD)
    path = site.file if what.startswith("file") else site.folder
    match what:
        case "file owner" | "folder owner":
            os.chown(path, NOBODY, NOBODY)
            reason, fix = f"it belongs to user {NOBODY}, not to root", f"sudo chown root {path}"
        case _:
            os.chmod(path, {"file mode": 0o664, "folder mode": 0o777, "sticky folder": 0o1777}[what])
            reason, fix = "others than root can write it", f"sudo chmod go-w {path}"
    with caplog.at_level(logging.WARNING, "toolbus"):
        Toolbus(SERVERS)
    found = read_administrator()
    assert found.files == ()
    assert [(one.path, one.reason, one.fix) for one in found.ignored] == [(str(path), reason, fix)]
    assert caplog.messages == [f"{path} is not used: {reason}; to make it count: {fix}"]


def stops(site: Site) -> ConfigError:
    """The error of every start."""
    with pytest.raises(ConfigError) as read:
        read_administrator()
    with pytest.raises(ConfigError) as started:
        Toolbus(SERVERS)
    assert str(read.value) == str(started.value)
    assert read.value.file == str(site.file)
    assert read.value.problem.endswith(
        "nothing is started until it is fixed; ask the administrator of this machine"
    )
    return read.value


@pytest.mark.parametrize(
    ("text", "key", "problem"),
    [
        ("", None, "is empty; write allow, deny or require"),
        ("# nothing\n", None, "is empty; write allow, deny or require"),
        ("allow: [", None, "line 1: not valid YAML"),
        ("- allow", None, "expected a mapping at the top, with allow, deny or require"),
        ("alow: {}", "alow", "unknown key; did you mean 'allow'?"),
        ("allow:", "allow", "expected a mapping"),
        ("allow: [bash]", "allow", "expected a mapping"),
        ("allow: {}\nallow: {}", "allow", "line 2: key 'allow' is given twice; keep one"),
        ("deny: {url: []}", "deny.url", "unknown key; did you mean 'urls'?"),
        ("deny: {argv: bash}", "deny.argv", "expected a list of patterns"),
        ("deny: {urls:}", "deny.urls", "expected a list of patterns"),
        ("deny: {argv: ['']}", "deny.argv[0]", "is empty"),
        ("deny: {argv: [[]]}", "deny.argv[0]", "is empty"),
        ("deny: {argv: ['a \"b']}", "deny.argv[0]", "cannot be split into words: No closing quotation"),
        ("deny: {argv: [1]}", "deny.argv[0]", "expected a list of strings"),
        ("deny: {argv: [[bash, 1]]}", "deny.argv[0][1]", "expected a string"),
        ("deny: {urls: [example.com]}", "deny.urls[0]", "expected SCHEME://HOST"),
        ("deny: {urls: ['http://x/?a=1']}", "deny.urls[0]", "expected SCHEME://HOST"),
        ("deny: {urls: ['http://a@x/']}", "deny.urls[0]", "expected SCHEME://HOST"),
        ("deny: {packages: [evil]}", "deny.packages[0]", "expected npm:NAME or pypi:NAME"),
        ("deny: {packages: ['npm:x@1.0.0']}", "deny.packages[0]", "expected npm:NAME or pypi:NAME"),
        ("deny: {packages: ['pypi:x==1']}", "deny.packages[0]", "expected npm:NAME or pypi:NAME"),
        ("require: lock", "require", "expected a list of strings"),
        ("require: [locks]", "require[0]", "expected 'lock', 'sandbox' or 'audit'"),
        ("require:", "require", "expected a list of strings"),
    ],
)
def test_a_broken_file(text: str, key: str | None, problem: str, site: Site) -> None:
    """It stops every start with its path and reason."""
    site.write(text)
    error = stops(site)
    assert (error.key, error.problem[: len(problem)]) == (key, problem)


def test_a_file_of_other_bytes(site: Site) -> None:
    """It stops every start."""
    site.write("")
    for content, problem in (
        (b"\xff\xfe", "is not UTF-8"),
        (b"#" * 2_000_000, "has more than 1,048,576 bytes"),
    ):
        site.file.write_bytes(content)
        assert stops(site).problem.startswith(problem)


def test_something_else_in_place_of_the_file(site: Site) -> None:
    """It stops every start, and nothing waits for it."""
    site.file.mkdir(mode=0o755)
    assert stops(site).problem.startswith("cannot be read: Is a directory")
    site.file.rmdir()
    os.mkfifo(site.file, 0o600)
    assert stops(site).problem.startswith("is not a file")


def test_a_link_to_nothing(site: Site, tmp_path: Path) -> None:
    """It stops every start: there was a file once."""
    site.file.symlink_to(tmp_path / "gone")
    assert stops(site).problem.startswith("is a link to nothing")
    site.file.unlink()
    site.file.symlink_to(site.file)
    assert stops(site).problem.startswith("cannot be read: Too many levels of symbolic links")


@pytest.mark.parametrize("what", ["owner", "mode", "folder", "far folder"])
def test_a_link_out_of_the_hands_of_root(what: str, site: Site, tmp_path: Path) -> None:
    """It stops every start."""
    far = tmp_path / "far"
    target = far / "near" / "policy.yaml"
    target.parent.mkdir(parents=True, mode=0o755)
    target.write_text(GOOD)
    site.file.symlink_to(target)
    assert len(read_administrator().files) == 1
    match what:
        case "owner":
            os.chown(target, NOBODY, NOBODY)
        case "mode":
            target.chmod(0o646)
        case "folder":
            os.chown(target.parent, NOBODY, NOBODY)
        case _:
            far.chmod(0o777)
    assert stops(site).problem.startswith("is a link out of root's hands: ")


def test_a_folder_that_is_a_link_out_of_the_hands_of_root(site: Site, tmp_path: Path) -> None:
    """It stops every start."""
    site.folder.rmdir()
    (tmp_path / "policy.yaml").write_text(GOOD)
    tmp_path.chmod(0o755)
    site.folder.symlink_to(tmp_path)
    assert len(read_administrator().files) == 1
    tmp_path.chmod(0o777)
    assert stops(site).problem.startswith("is a link out of root's hands: ")


@pytest.mark.parametrize("unreadable", ["policy.yaml", "toolbus"])
def test_a_file_that_users_cannot_read(unreadable: str, site: Site) -> None:
    """It stops every start: a rule that cannot be read is not a rule that permits."""
    with TemporaryDirectory() as base:
        os.chmod(base, 0o755)
        folder = Path(base, "toolbus")
        folder.mkdir(mode=0o755)
        (folder / "policy.yaml").write_text(GOOD)
        path = folder if unreadable == "toolbus" else folder / unreadable
        os.chmod(path, 0o600)
        os.seteuid(NOBODY)
        try:
            with pytest.raises(ConfigError, match="cannot be read: Permission denied; nothing is started"):
                read_administrator([folder])
        finally:
            os.seteuid(0)


def test_a_file_where_owners_cannot_be_checked(site: Site) -> None:
    """It stops every start, as on Windows."""
    assert read_administrator([site.folder], knows_owners=False).files == ()
    site.write(GOOD)
    with pytest.raises(
        ConfigError, match="its owner cannot be checked on this system, so nothing is started"
    ):
        read_administrator([site.folder], knows_owners=False)
