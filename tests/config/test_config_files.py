"""Reading config files: formats, comments, duplicates, and what a broken file is told."""

from pathlib import Path

import pytest

from toolbus.config import ServerConfig, find_config, load_config
from toolbus.errors import ConfigError

FILES = ServerConfig(alias="files", transport="stdio", command="npx", args=("-y", "https://x.test//a"))


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def failure(path: Path) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert caught.value.file == str(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("c.yaml", 'servers:\n  files: {command: npx, args: ["-y", "https://x.test//a"]}\n'),
        ("c.yml", "servers:\n  files:\n    command: npx\n    args: [-y, https://x.test//a]\n"),
        ("c.json", '{"servers": {"files": {"command": "npx", "args": ["-y", "https://x.test//a"]}}}'),
        ("c.toml", '[servers.files]\ncommand = "npx"\nargs = ["-y", "https://x.test//a"]\n'),
        ("bom.json", '\ufeff{"servers": {"files": {"command": "npx", "args": ["-y", "https://x.test//a"]}}}'),
    ],
)
def test_yaml_json_and_toml_give_the_same_config(tmp_path: Path, name: str, text: str) -> None:
    path = written(tmp_path, name, text)

    config = load_config(str(path))

    assert config.servers == {"files": FILES}
    assert (config.file, config.folder) == (str(path), tmp_path)


def test_json_may_have_comments_and_trailing_commas_and_strings_stay_untouched(tmp_path: Path) -> None:
    text = """{
      // "servers": {"not": "this"}
      "servers": { /* two
                      lines */
        "files": {"command": "npx", "args": ["-y", "https://x.test//a", /* c */ ], },
        "odd": {"command": "say", "args": ["/* no comment */", "a,]", "q\\"// no", ", }"]},
      },
    }"""

    config = load_config(written(tmp_path, "c.json", text))

    assert config.servers["files"] == FILES
    assert config.servers["odd"].args == ("/* no comment */", "a,]", 'q"// no', ", }")


def test_a_yaml_merge_key_may_be_overridden(tmp_path: Path) -> None:
    text = """
x-base: &base {command: npx, args: [a]}
servers:
  one: &one {<<: *base, args: [b]}
  two: {<<: *one, args: [c]}
"""
    config = load_config(written(tmp_path, "c.yaml", text))

    assert {alias: (server.command, server.args) for alias, server in config.servers.items()} == {
        "one": ("npx", ("b",)),
        "two": ("npx", ("c",)),
    }


@pytest.mark.parametrize(
    ("name", "text", "key", "line"),
    [
        ("c.yaml", "servers:\n  a: {command: x}\n  b: {command: y}\n  a: {command: z}\n", "a", "line 4: "),
        (
            "c.yaml",
            "servers:\n  a:\n    command: x\n    env: {T: s3cret}\n    command: y\n",
            "command",
            "line 5: ",
        ),
        ("c.yaml", "servers: {}\nservers: {}\n", "servers", "line 2: "),
        ("c.json", '{"servers": {"a": {"command": "x"}, "a": {"command": "y"}}}', "a", ""),
        ("c.json", '{"servers": {"a": {"command": "x", "env": {"T": "1", "T": "2"}}}}', "T", ""),
    ],
)
def test_a_key_given_twice_is_an_error_that_names_it(
    tmp_path: Path, name: str, text: str, key: str, line: str
) -> None:
    error = failure(written(tmp_path, name, text))

    assert (error.key, error.problem) == (key, f"{line}key {key!r} is given twice; keep one")


def test_a_toml_key_given_twice_is_an_error(tmp_path: Path) -> None:
    error = failure(written(tmp_path, "c.toml", '[servers.a]\ncommand = "x"\n[servers.a]\ncommand = "y"\n'))

    assert error.problem.startswith("line 3: not valid TOML: ")


@pytest.mark.parametrize(
    ("name", "text", "start"),
    [
        ("c.yaml", "servers:\n  a: {command: x\n  b: y: s3cret\n", "line 3: not valid YAML: "),
        ("c.yaml", "servers:\n\ta: 1\n", "line 2: not valid YAML: "),
        ("c.yaml", "a: 1\n---\nb: 2\n", "line 2: not valid YAML: "),
        ("c.yaml", "a: 1\nb: \x07\n", "line 2: not valid YAML: "),
        ("c.yaml", "servers: !!python/object:os.system {}\n", "line 1: not valid YAML: "),
        ("c.yaml", "servers: {}\nx-day: 2020-13-01\n", "not valid YAML: a value that cannot be read"),
        ("c.json", '{\n  // c\n  "servers": {"a" "s3cret"}\n}', "line 3: not valid JSON: "),
        ("c.json", '{"servers": {"a": "s3cret\n"}}', "line 1: not valid JSON: "),
        ("c.json", '{"servers": {}} /* open', "line 1: not valid JSON: "),
        ("c.toml", 'a = "s3cret"\nb = = 2\n', "line 2: not valid TOML: "),
        ("c.toml", 'a = 1\nb = "s3cret', "line 2: not valid TOML: "),
    ],
)
def test_a_malformed_file_is_told_its_line_and_not_its_content(
    tmp_path: Path, name: str, text: str, start: str
) -> None:
    error = failure(written(tmp_path, name, text))

    assert error.problem.startswith(start)
    assert "s3cret" not in str(error)


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("c.yaml", "", "is empty; list your servers under 'servers:'"),
        ("c.yaml", "# nothing\n", "is empty; list your servers under 'servers:'"),
        ("c.json", " \n", "is empty; list your servers under 'servers:'"),
        ("c.toml", "# nothing\n", "is empty; list your servers under 'servers:'"),
        ("c.yaml", "- a\n", "expected a mapping at the top, with 'servers:' or 'mcpServers'"),
        ("c.json", "[]", "expected a mapping at the top, with 'servers:' or 'mcpServers'"),
        ("c.yaml", "just words", "expected a mapping at the top, with 'servers:' or 'mcpServers'"),
        ("c.json", "[" * 100_000, "is nested too deeply"),
        (
            "c.conf",
            "servers: {}",
            "unknown file format; use one of the extensions .yaml, .yml, .json, .jsonc, .toml",
        ),
    ],
)
def test_a_file_without_a_mapping_is_an_error(tmp_path: Path, name: str, text: str, problem: str) -> None:
    assert failure(written(tmp_path, name, text)).problem == problem


def test_a_missing_file_a_folder_and_foreign_bytes_are_errors(tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "latin.yaml").write_bytes(b"servers: {\xe4: 1}")

    assert failure(tmp_path / "none.yaml").problem == "no such file; check the path"
    assert failure(tmp_path / "latin.yaml").problem == "is not UTF-8; save it as UTF-8"
    assert failure(tmp_path / "folder.yaml").problem == ("is a folder; name the file in it")


def test_the_config_is_found_by_its_name_in_a_fixed_order(tmp_path: Path) -> None:
    names = ["mcp.json", ".mcp.json", "toolbus.toml", "toolbus.json", "toolbus.yml", "toolbus.yaml"]
    found: list[str] = []
    for name in names:
        written(tmp_path, name, "")
        found.append(find_config(tmp_path).name)

    assert found == names


def test_the_environment_names_the_config_before_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, "toolbus.yaml", "")
    other = written(tmp_path, "other.json", "")
    monkeypatch.chdir(tmp_path)

    monkeypatch.setenv("TOOLBUS_CONFIG", "")
    assert find_config() == tmp_path / "toolbus.yaml"
    monkeypatch.setenv("TOOLBUS_CONFIG", str(other))
    assert find_config(tmp_path) == other


def test_no_config_is_an_error_that_says_where_it_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TOOLBUS_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(ConfigError) as caught:
        find_config(tmp_path)
    assert str(caught.value) == (
        f"no config in {str(tmp_path)!r} or above, nor in {str(tmp_path / 'toolbus')!r}: looked for "
        "$TOOLBUS_CONFIG, toolbus.yaml, toolbus.yml, toolbus.json, toolbus.toml, .mcp.json, "
        "mcp.json; create toolbus.yaml or name a file"
    )

    monkeypatch.setenv("TOOLBUS_CONFIG", str(tmp_path / "gone.yaml"))
    with pytest.raises(ConfigError) as caught:
        find_config(tmp_path)
    assert caught.value.file == str(tmp_path / "gone.yaml")


SERVERS = "servers: {post: {command: x}}\n"
ENDLESS = {
    "merges": "".join(f"x{n}: &x{n} {{<<: [*x{n - 1}, *x{n - 1}]}}\n" for n in range(1, 60)),
    "lists": "".join(f"x{n}: &x{n} [*x{n - 1}, *x{n - 1}]\n" for n in range(1, 60)),
}


@pytest.mark.parametrize(
    "text", [f"x0: &x0 {{a: 1}}\n{ENDLESS[kind]}{SERVERS}" for kind in ENDLESS], ids=list(ENDLESS)
)
def test_aliases_of_aliases_that_would_never_end_are_refused_at_once(tmp_path: Path, text: str) -> None:
    assert "more than 100,000 values" in str(failure(written(tmp_path, "c.yaml", text)))


@pytest.mark.parametrize(
    "text", ["servers: &a {post: {command: x, env: *a}}\n", f"x: &a {{<<: *a}}\n{SERVERS}"]
)
def test_an_alias_inside_of_what_it_stands_for_is_refused(tmp_path: Path, text: str) -> None:
    assert "its aliases (*)" in str(failure(written(tmp_path, "c.yaml", text)))


def test_an_alias_may_be_used_often(tmp_path: Path) -> None:
    entries = "".join(f"  s{n}: {{<<: *base, args: [a{n}]}}\n" for n in range(300))
    base = "x-base: &base {command: npx, env: &env {A: b}}\n"
    text = f"{base}servers:\n{entries}  last: {{command: y, env: *env}}\n"

    servers = load_config(written(tmp_path, "c.yaml", text)).servers

    assert len(servers) == 301
    assert (servers["s7"].command, servers["s7"].args, dict(servers["last"].env)) == (
        "npx",
        ("a7",),
        {"A": "b"},
    )
