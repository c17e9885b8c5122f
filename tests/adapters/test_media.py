"""The media that reach a model as they are, and the ones that become a line of text."""

from tests.servers.everyday import PNG, WAV
from tests.servers.gallery import SVG
from toolbus.adapters.media import AUDIO_TYPES, IMAGE_TYPES, model_blocks
from toolbus.records import Audio, Image, Text, ToolResult


def test_a_medium_that_the_model_does_not_take_is_described() -> None:
    drawing = Image(data=SVG, mime_type="image/svg+xml")
    assert model_blocks(ToolResult(content=(Text(text="see"), drawing))) == (
        Text(text="see"),
        Text(text="[image: image/svg+xml, 41 B]"),
    )


def test_a_picture_under_a_wrong_name_is_given_under_the_right_one() -> None:
    photo = Image(data=PNG, mime_type="image/JPG")
    assert model_blocks(ToolResult(content=(photo,))) == (Image(data=PNG, mime_type="image/png"),)


def test_sound_is_given_only_where_it_is_asked_for() -> None:
    sound = ToolResult(content=(Audio(data=WAV, mime_type="audio/x-wav"),))
    assert model_blocks(sound) == (Text(text="[audio: audio/wav, 16 B]"),)
    assert model_blocks(sound, IMAGE_TYPES | AUDIO_TYPES) == (Audio(data=WAV, mime_type="audio/wav"),)
