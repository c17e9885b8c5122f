"""Nothing hidden reaches a model, and nothing that people write is harmed."""

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inside.core import cleaned, cleaned_json
from tests.properties import modest
from toolbus.records import JSON

# The same examples on every run, and no judgement of how busy the machine is.
ORDINARY = [
    "Plain text, with tab\tand line\nbreak.",
    "Grüße aus Köln; naïve café, Ελληνικά, Съешь ещё булок",
    "工具总线 ツールバス 도구 버스",
    "עברית וגם العربية",
    "می\u200cخواهم کتاب\u200cها را بخوانم",  # noqa: RUF001 - Persian: a non-joiner inside words
    "क्\u200dष और र्\u200dय, शब्द के अन्त में क्\u200d भी",  # Hindi: joiners after a virama
    "ശ്രീ അവന്\u200d പറഞ്ഞു",  # Malayalam: a joiner that ends a word
    "ශ්\u200dරී ලංකා",  # Sinhala
    "ภาษาไทย ພາສາລາວ ភាសាខ្មែរ မြန်မာ བོད་ཡིག",
    "ᠮᠣᠩᠭᠣᠯ ᠬᠠᠨ\u180eᠠ",  # Mongolian: a vowel separator
    "❤\ufe0f ☎\ufe0e ©\ufe0f 1\ufe0f⃣ #\ufe0f⃣ ✈\ufe0f",
    "👨\u200d👩\u200d👧\u200d👦 👩🏽\u200d🚀 🏳\ufe0f\u200d🌈 🏴\u200d☠\ufe0f",
    "❤\ufe0f\u200d🔥 🧑🏻\u200d🤝\u200d🧑🏿 👁\ufe0f\u200d🗨\ufe0f",
    "🇩🇪🇯🇵 🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f 👍🏿",
    "e\u0301 a\u0308 (combining), math ∑∫√ ≠ ≤, box ┌─┐",
]

HIDDEN = {
    "colour": ("\x1b[1;31mred\x1b[0m", "red"),
    "colour with colons": ("\x1b[38:2::255:0:0mred\x1b[m", "red"),
    "cursor": ("a\x1b[2J\x1b[Hb\x1b[?25l", "ab"),
    "hyperlink": ("\x1b]8;;https://evil.example\x1b\\here\x1b]8;;\x07", "here"),
    "title": ("\x1b]0;title\x07text", "text"),
    "device control": ("\x1bPq#0~~\x1b\\x", "x"),
    "application command": ("\x1b_Gf=24;AAAA\x1b\\x", "x"),
    "eight bit": ("\x9b31mred\x9b0m \x9dtitle\x9cx", "red x"),
    "character set": ("\x1b(Bx\x1bcy", "xy"),
    "unfinished string": ("\x1b]0;title\nnext", "0;title\nnext"),
    "unfinished colour": ("a\x1b[31", "a31"),
    "escape at the end": ("a\x1b", "a"),
    "controls": ("a\x00b\x08c\x7fd\x9ae", "abcde"),
    "line ends": ("a\r\nb\rc\x0bd\x0ce\x85f", "a\nb\nc\nd\ne\nf"),
    "zero width": ("a\u200bb\u200cc\u200dd\u2060e\ufefff\u00adg", "abcdefg"),
    "joiners in a row": ("می\u200c\u200c\u200dخ", "میخ"),
    "joiners after a virama": ("क्\u200d\u200c\u200d", "क्\u200d"),
    "bidi": ("\u202eabc\u202c \u2066x\u2069 \u200e\u200f\u061c!", "abc x !"),
    "annotation": ("\ufff9base\ufffagloss\ufffb", "basegloss"),
    "tags": ("hi" + "".join(chr(0xE0000 + ord(c)) for c in "ignore all") + "!", "hi!"),
    "tags after a flag": ("🏴" + "".join(chr(0xE0000 + ord(c)) for c in "ignoreall\x7f"), "🏴"),
    "selectors": ("😀\ufe0f\ufe00\ufe01\U000e0100\U000e01ef", "😀\ufe0f"),
    "a selector without emoji": ("a\ufe0fb", "ab"),
    "a selector after an eaten digit": ("\x1b1\ufe0f", ""),
    "surrogates": ("a\ud83db\udc00", "ab"),
    "noncharacters": ("a\ufdd0b\uffffc\U0010fffed", "abcd"),
    "fillers": ("a\u3164b\u115fc\uffa0", "abc"),
}


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_writing_is_the_same_object_afterwards(text: str) -> None:
    assert cleaned(text) is text


@pytest.mark.parametrize(("text", "expected"), HIDDEN.values(), ids=HIDDEN.keys())
def test_what_is_hidden_goes_and_what_is_seen_stays(text: str, expected: str) -> None:
    assert cleaned(text) == expected
    assert cleaned(expected) is expected


# Mostly what the rules are about, so that combinations come up.
tricky = st.text(
    st.one_of(
        st.characters(exclude_categories=()),
        st.sampled_from(
            "a1#[]\\;mP?\n\t\r\x07\x1b\x85\x9b\x9c\x9d\u200c\u200d\ufe0e\ufe0f\ufeff\u180e\u061c"
        ),
        st.sampled_from("❤👩🚀🏽🏴क्षمیᠨ\u20e3\U000e0067\U000e0062\U000e007f\U000e0100\ud83d"),
    )
)


@modest
@given(tricky)
def test_cleaning_twice_is_cleaning_once(text: str) -> None:
    once = cleaned(text)
    assert cleaned(once) is once
    assert not any(unicodedata.category(sign) in ("Cc", "Cs") and sign not in "\n\t" for sign in once)


@modest
@given(st.text(st.characters(exclude_categories=("Cc", "Cf", "Cs", "Cn", "Mn", "Lo"))))
def test_letters_marks_digits_and_signs_are_never_touched(text: str) -> None:
    assert cleaned(text) is text


def test_every_string_of_a_json_value_is_cleaned_keys_too() -> None:
    value = {"a\u200b": ["x\x1b[0m", {"k": "\ufeffv"}, 1, True, None], "plain": 1.5}
    assert cleaned_json(value) == {"a": ["x", {"k": "v"}, 1, True, None], "plain": 1.5}
    assert list(cleaned_json(value)) == ["a", "plain"]
    assert cleaned_json("x\u200b") == "x"


def test_keys_that_become_equal_stay_apart_and_the_clean_one_keeps_its_name() -> None:
    value = {"to\u200b": "evil", "to": "good", "\u200bto": "worse"}
    assert cleaned_json(value) == {"to_2": "evil", "to": "good", "to_3": "worse"}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@modest
@given(json_values)
def test_a_clean_json_value_is_the_same_object_afterwards(value: JSON) -> None:
    once = cleaned_json(value)
    assert cleaned_json(once) is once


def test_a_very_deep_value_is_cleaned_too() -> None:
    value: JSON = "x\u200b"
    for _ in range(10_000):
        value = [value]
    value = cleaned_json(value)
    for _ in range(10_000):
        [value] = value
    assert value == "x"


@pytest.mark.parametrize("sign", ["x", "я", "\x00", "\x1b]", "\x1b[1", "\u200d", "🏴\U000e0067", "\x9d\x9b"])
def test_the_time_grows_with_the_length_only(sign: str) -> None:
    text = sign * (500_000 // len(sign))
    begin = time.process_time()
    cleaned(text)
    assert time.process_time() - begin < 3, "not linear"
