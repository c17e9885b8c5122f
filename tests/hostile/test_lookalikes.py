"""Names in characters that look like others."""

import json
import subprocess
import sys
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inside.config import check_alias
from tests.inside.core import look, looks, skeleton
from tests.inside.lock import LockedServer, suspicions
from tests.inside.policy import Pattern, PolicyTarget
from tests.policy import confusables
from tests.properties import modest
from toolbus.errors import ConfigError

DENIED = "delete_my_cafiles0"
KNOWN = {
    "a": "\u0430\u0251\u03b1\uff41\U0001d41a\u237a",
    "c": "\u0441\u03f2\u1d04\u217d\U0001043d\u2ca5",
    "d": "\u0501\u13e7\u217e\U0001d521\u146f",
    "e": "\u0435\u04bd\u212e\uab32\u0395\u2d39",
    "f": "\uab35\u017f\u0584\U0001d41f\ua799",
    "i": "\u0456\u0131\u0269\u13a5\u2170\ua647",
    "l": "\u04cf\u217c\u2113\u0627\u05d5\u01c0",
    "m": "\u043c\u217f\u039c\u2133\u1d0d\ua4df",
    "s": "\u0455\ua731\u01bd\u13da\U00010448\uff53",
    "t": "\u0442\u1d1b\u03c4\u22a4\ua4d4",
    "y": "\u0443\u0263\u028f\u03b3\u10e7\u1eff",
    "_": "\ufe4d\uff3f",
    "0": "\u043e\u0966\u3007\u0ae6\u1d0f\u2d54",
}
"""Characters that look like another, of many scripts."""


def denies(pattern: str, name: str) -> bool:
    return Pattern(f"github/{pattern}", loosens=False).matches(
        PolicyTarget(kind="tool", server="github", name=name)
    )


def disguises() -> list[str]:
    return [DENIED.replace(letter, other) for letter, others in KNOWN.items() for other in others]


@pytest.mark.parametrize("pattern", [DENIED, "delete_*", "*_my_cafiles?", "delete_[a-n]y_*"])
def test_a_denied_name_in_look_alike_characters(pattern: str) -> None:
    """A rule that denies a name denies every name that looks like it."""
    assert [ascii(name) for name in disguises() if not denies(pattern, name)] == []


@pytest.mark.parametrize(
    "name", ["deIete_my_cafiles0", "de1ete_rny_cafiles0", "DELETE_MY_CAFILESO", "deIete_MY_cafi1es0"]
)
def test_a_denied_name_in_ascii_characters_that_look_alike(name: str) -> None:
    """Neither 1, I and l nor 0 and O nor rn and m lead around a rule."""
    assert denies(DENIED, name)


@pytest.mark.parametrize(
    "name",
    [
        "delete_my_cafilesx",
        "deleted_my_cafiles0",
        "delete_ny_cafiles0",
        "deiete_my_cafiles0",
        "d\u00e9lete_my_cafiles0",
    ],
)
def test_a_name_that_looks_different(name: str) -> None:
    """A rule denies no name that a person can tell apart."""
    assert not denies(DENIED, name)


def test_an_allowed_name_in_look_alike_characters() -> None:
    """A rule that allows a name allows no other one, even a look-alike."""
    pattern = Pattern(f"github/{DENIED}", loosens=True)
    targets = [PolicyTarget(kind="tool", server="github", name=name) for name in disguises()]
    assert not any(map(pattern.matches, targets))


def test_a_tool_named_like_another() -> None:
    """Locking its server leads to a warning that it looks like the other one."""
    for name in disguises():
        servers = {alias: locked(own) for alias, own in (("github", DENIED), ("evil", name))}
        reasons = {one.reason for one in suspicions(servers) if one.server == "evil"}
        assert f"its name looks like github/{DENIED}" in reasons, ascii(name)


def locked(name: str) -> LockedServer:
    tool: dict[str, Any] = {"name": name, "inputSchema": {"type": "object"}}
    return LockedServer(launch={}, definitions={"tools": {name: tool}})


@pytest.mark.parametrize(
    "alias",
    ["t\u043e\u043elbus", "t00lbus", "tooIbus", "TOOLBUS", "\u1d1b\u1d0f\u1d0f\u029f\u0299\u1d1c\ua731"],
)
def test_a_server_named_like_the_bus(alias: str) -> None:
    """No server may have an alias that looks like toolbus's own."""
    with pytest.raises(ConfigError, match="reserved for the tools of toolbus itself"):
        check_alias(alias)


@modest
@given(text=st.text())
def test_any_text_as_a_name(text: str) -> None:
    """The look of a text does not depend on its normalization, and looking twice changes nothing."""
    assert look(text) == look(unicodedata.normalize("NFD", text))
    assert skeleton(skeleton(text)) == skeleton(text)
    assert look(look(text)) == look(text)


def test_every_character_of_the_published_table() -> None:
    """The table is the one that Unicode publishes, and each character in it looks like its prototype."""
    icu = pytest.importorskip("icu", reason="PyICU is not installed; pip would compile it with ICU")
    assert confusables.FILE.read_text(encoding="utf-8") == confusables.written(icu)
    wrong = [
        ascii(character)
        for character, prototype in confusables.prototypes(icu)
        if prototype.isascii() and looks(character)[2] != looks(prototype)[2]
    ]
    assert wrong == []


def test_a_start_without_strange_names() -> None:
    """The table is not read before a name needs it."""
    code = (
        "from toolbus.core.text import lookalikes; lookalikes.look('plain');"
        "import json; print(json.dumps(lookalikes._prototypes.cache_info().currsize))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == 0
