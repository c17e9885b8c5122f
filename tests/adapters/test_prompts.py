"""The messages of prompts, turn by turn, including odd ones."""

from importlib import import_module

import pytest

from tests.adapters.environments import living_here
from tests.servers.everyday import PNG, WAV
from tests.servers.gallery import PDF
from toolbus.adapters.media import AUDIO_TYPES, PROMPT_TYPES, Document, PromptTurn, merged_turns, prompt_turns
from toolbus.records import Audio, Block, Embedded, Image, PromptMessage, PromptResult, Text

PICTURE = Image(data=PNG, mime_type="image/png")
SOUND = Audio(data=WAV, mime_type="audio/wav")
REPORT = Embedded(uri="memo://report.pdf", data=PDF, mime_type="application/pdf")


def user(*blocks: Block) -> list[PromptMessage]:
    return [PromptMessage(role="user", content=block) for block in blocks]


def assistant(*blocks: Block) -> list[PromptMessage]:
    return [PromptMessage(role="assistant", content=block) for block in blocks]


def words(*lines: str) -> tuple[Text, ...]:
    return tuple(Text(text=line) for line in lines)


def test_every_message_is_a_turn() -> None:
    said = prompt_turns([*user(*words("Look."), PICTURE, REPORT), *assistant(*words("Yes?"))])
    report = Document(name="report.pdf", data=PDF)
    assert said == [
        PromptTurn(role="user", parts=words("Look.")),
        PromptTurn(role="user", parts=(PICTURE,)),
        PromptTurn(role="user", parts=(Text(text="[memo://report.pdf]"), report)),
        PromptTurn(role="assistant", parts=words("Yes?")),
    ]
    assert [turn.is_text for turn in said] == [True, False, False, True]
    assert [turn.text for turn in said] == ["Look.", "", "[memo://report.pdf]", "Yes?"]


def test_merged_the_sides_take_turns() -> None:
    said = merged_turns(
        prompt_turns([*user(*words("Look."), PICTURE), *assistant(*words("Yes?", "What?")), *user(PICTURE)])
    )
    assert said == [
        PromptTurn(role="user", parts=(Text(text="Look."), PICTURE)),
        PromptTurn(role="assistant", parts=words("Yes?", "What?")),
        PromptTurn(role="user", parts=(PICTURE,)),
    ]


def test_what_the_assistant_shows_is_told() -> None:
    said = prompt_turns(assistant(PICTURE, SOUND, REPORT), PROMPT_TYPES | AUDIO_TYPES)
    assert [turn.parts for turn in said] == [
        words("[image: image/png, 70 B]"),
        words("[audio: audio/wav, 16 B]"),
        words("[resource: memo://report.pdf, application/pdf, 8 B]"),
    ]


def test_without_types_all_is_told() -> None:
    assert all(turn.is_text for turn in prompt_turns(user(PICTURE, SOUND, REPORT), ()))


def test_sound_is_given_where_it_is_asked_for() -> None:
    assert prompt_turns(user(SOUND), AUDIO_TYPES) == [PromptTurn(role="user", parts=(SOUND,))]


def test_a_message_that_says_nothing_is_left_out() -> None:
    assert prompt_turns([*user(Text(text=" \n")), *assistant(Text(text=""))]) == []


@pytest.mark.parametrize(
    ("block", "told"),
    [
        (Image(data=b"no picture", mime_type="image/png"), "[image: application/octet-stream, 10 B]"),
        (Image(data=b"", mime_type="image/png"), "[image: application/octet-stream, 0 B]"),
        (Image(data=PDF, mime_type="application/pdf"), "[image: application/pdf, 8 B]"),
        (
            Embedded(uri="memo://empty.pdf", data=b"", mime_type="application/pdf"),
            "[resource: memo://empty.pdf, application/pdf, 0 B]",
        ),
        (Embedded(uri="memo://text", text=""), "[resource: memo://text]"),
    ],
)
def test_what_is_not_what_it_says_is_told(block: Block, told: str) -> None:
    assert prompt_turns(user(block)) == [PromptTurn(role="user", parts=words(told))]


@pytest.mark.parametrize("name", ["anthropic", "google_genai", "openai"])
def test_a_model_without_eyes_gets_words(name: str) -> None:
    prompt = PromptResult(messages=tuple(user(PICTURE, SOUND, REPORT)))
    [*said] = import_module(f"toolbus.adapters.{name}").messages(prompt, media=False)
    lines = ["[image: image/png, 70 B]", "[audio: audio/wav, 16 B]", "[resource: memo://report.pdf, "]
    assert all(line in str(said) for line in lines)
    assert not any(start in str(said) for start in ("iVBOR", "UklGR", "JVBER", "PNG"))


@pytest.mark.parametrize("name", living_here())
def test_an_empty_prompt_has_no_messages(name: str) -> None:
    assert import_module(f"toolbus.adapters.{name}").messages(PromptResult(messages=())) == []
