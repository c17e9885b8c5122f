"""Tab in real shells: it completes names, and runs nothing of what servers, caches and configs say."""

import json
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import scripted, toolbus, write_config
from tests.cli.tab import Shell, printed, shell
from tests.conftest import sampled
from tests.inside.cli import rejoined_words

QUOTES = ["", "'", '"']
PROMPT = "toolbus prompt "
"""A prompt on a line that also takes a server: `post` and `post/reply` begin alike."""
LINES = {
    "toolbus tools ": "post",
    "toolbus call ": "post_apple",
    "toolbus call post_apple ": "tone=",
    PROMPT: "post",
    "toolbus prompt post/reply ": "tone=",
    "toolbus read post ": "box://inbox",
}
"""Typed lines, each with its only safe name."""


def attacks(kind: str) -> list[str]:
    """Texts that make a file if a shell evaluates them, however it quotes or splits them before."""
    makes = [f">ran-{kind}", f"touch ran-{kind}", f"touch${{IFS}}ran-{kind}"]
    bare = [form.format(make) for make in makes for form in ("$({})", "`{}`", "({})", "<({})", "=({})")]
    escaped = ["\\" * count + text for count in (1, 2, 3) for text in bare[:2] + bare[5:7]]
    closed = [
        f"{close}{text}" for close in ("'", '"', "''", '""', "))'", "]") for text in bare[:2] + bare[5:7]
    ]
    chained = [f"{cut}touch ran-{kind}{cut}" for cut in (";", "&", "|", "\n", "'; ", '"; ', "))'; ", "\\'; ")]
    return [
        *escaped,
        *bare,
        *closed,
        *chained,
        f"{{touch,ran-{kind}}}",
        f":${{(e):-`>ran-{kind}`}}",
        "\x1b[2J\x07",
    ]


def attacker(folder: Path, **texts: list[str]) -> dict[str, Any]:
    """A server with one safe name of each kind, and these texts besides."""
    about = "".join(texts.get("description", ()))
    arguments = ["tone", *(f"to{text}" for text in texts.get("argument", ()))]
    prompts = ["reply", *(f"re{text}" for text in texts.get("prompt", ()))]
    uris = ["box://inbox", *(f"box://in{text}" for text in texts.get("uri", ()))]
    schema: dict[str, Any] = {"type": "object", "properties": {name: {} for name in arguments}}
    return scripted(
        folder,
        "post",
        tools=[{"name": "apple", "description": about, "inputSchema": schema}],
        prompts=[
            {"name": name, "description": about, "arguments": [{"name": name} for name in arguments]}
            for name in prompts
        ],
        resources=[{"uri": uri, "name": "inbox", "description": about} for uri in uris],
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose config, server and cache attack with all they can say."""
    folder = tmp_path_factory.mktemp("home") / "work"
    folder.mkdir()
    # Without the control sequence: the catalog has that argument under a safe name.
    post = attacker(folder, description=attacks("description"), argument=attacks("argument")[:-1])
    write_config(folder, {"post": post})
    assert toolbus("tools", "post", folder=folder).returncode == 0
    write_config(folder, {"post": post, **{f"po{text}": {"command": "x"} for text in attacks("alias")}})
    spoil_listing(folder)
    return folder


def spoil_listing(folder: Path) -> None:
    """Put into the cache what no server can say."""
    (file,) = (folder.parent / ".state" / "toolbus" / "listings").iterdir()
    listing: Any = json.loads(file.read_text())
    own = listing["post"]
    own["tools"]["post_apple"].append(f"to{attacks('argument')[-1]}")
    for text in attacks("tool"):
        own["tools"][f"post_a{text}"] = own["tools"]["post_apple"]
        own["tools"][f"--a{text}"] = own["tools"]["--accept"] = own["tools"]["post_apple"]
    for text in attacks("prompt"):
        own["prompts"][f"re{text}"] = own["prompts"]["reply"]
    for text in attacks("uri"):
        own["uris"][f"box://in{text}"] = own["uris"]["box://inbox"]
    for text in attacks("alias"):
        prompts = {"reply": own["prompts"]["reply"]}
        listing[f"po{text}"] = {**own, "tools": {}, "uris": {}, "prompts": prompts}
    file.write_text(json.dumps(listing))


@pytest.fixture(scope="module", params=["bash", "zsh", "fish"])
def waiting(request: pytest.FixtureRequest, folder: Path) -> Generator[Shell]:
    """A shell in that folder, each in turn."""
    with shell(request.param, folder) as waiting:
        yield waiting


@pytest.mark.parametrize(
    "line", sampled(list(LINES), "toolbus tools ", "toolbus call post_apple ", "toolbus read post ")
)
def test_tab_completes_the_safe_name_and_evaluates_no_other(waiting: Shell, folder: Path, line: str) -> None:
    name = LINES[line]
    for quote in QUOTES:
        found = waiting.completed(f"{line}{quote}")
        # The shell may close the quote and add a space, but not after `name=`.
        ends = ["", quote] if name.endswith("=") or line == PROMPT else [f"{quote} "]
        assert found in [f"{line}{quote}{name}{end}" for end in ends]
        assert list(folder.glob("ran-*")) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell", "pwsh"])
def test_nothing_but_the_safe_name_is_printed(folder: Path, shell: str) -> None:
    form = {"zsh": "compadd -- '{}';\n", "powershell": "{}::: \n", "pwsh": "{}::: \n"}.get(shell, "{}\n")
    for line, name in LINES.items():
        found = printed(shell, line, folder).replace("compadd -S ''", "compadd")
        if line == PROMPT:
            assert set(re.findall(r"[\w/]+", found)) - {"compadd"} == {"post", "post/reply"}
        else:
            assert found == form.format(name)


@pytest.mark.parametrize(
    ("kind", "words", "name"),
    [
        pytest.param("description", "call ", "post_apple ", marks=pytest.mark.full),
        ("argument", "call post_apple ", "tone="),
        pytest.param("prompt", "prompt ", "post", marks=pytest.mark.full),
        pytest.param("uri", "read post ", "box://inbox ", marks=pytest.mark.full),
        ("alias", "tools ", "post "),
    ],
)
def test_each_attack_alone_is_not_evaluated(
    waiting: Shell, folder: Path, kind: str, words: str, name: str
) -> None:
    """Among others, one could go unseen: a syntax error of zsh hides everything after it."""
    alone = folder / "alone"
    alone.mkdir(exist_ok=True)
    for text in ("\\`>ran-alone\\`", "$(>ran-alone)"):
        post = attacker(alone, **{kind: [text]})
        config = write_config(alone, {"post": post} | ({f"po{text}": post} if kind == "alias" else {}))
        listing = toolbus("--config", str(config), "tools", "post", folder=folder)
        assert (listing.returncode, listing.stderr) == (0, "")
        line = f"toolbus --config alone/toolbus.yaml {words}"
        bare, quoted = waiting.completed(line), waiting.completed(f'{line}"')
        assert list(folder.glob("ran-*")) == []
        assert bare == f"{line}{name}"
        assert quoted.startswith(f'{line}"{name.strip()}')


@pytest.mark.parametrize(
    ("words", "at", "whole", "place", "done"),
    [
        (["t", "p", "a", "="], 3, ["t", "p", "a="], 2, "a="),
        (["t", "p", "a", "=", "b"], 4, ["t", "p", "a=b"], 2, "a="),
        (["t", "p", "a", "=", ""], 4, ["t", "p", "a=", ""], 3, ""),
        (["t", "p", "a", "=", "b", "c"], 5, ["t", "p", "a=b", "c"], 3, ""),
        (["t", "r", "x", ":", "//y"], 4, ["t", "r", "x://y"], 2, "x:"),
        (["t", "p", "u", "=", "x", ":", "//y"], 6, ["t", "p", "u=x://y"], 2, "u=x:"),
        (["t", "p", "f", "=@", "na"], 4, ["t", "p", "f=@na"], 2, "f=@"),
        (["t", "r", "'x://y"], 2, ["t", "r", "'x://y"], 2, ""),
        (["t", ""], 1, ["t", ""], 1, ""),
    ],
)
def test_words_that_bash_broke_are_put_together_again(
    words: list[str], at: int, whole: list[str], place: int, done: str
) -> None:
    assert rejoined_words(words, at) == (whole, place, done)
