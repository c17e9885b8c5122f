"""Models by name, by address and as objects, and the errors for unusable ones."""

import gc
import subprocess
import sys

import pytest
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.openai import OpenAIChatModel

from tests.agent.stage import MODELS, final, provided
from tests.inside.agent import served_models
from tests.patience import PATIENCE
from tests.wire import Fault, Provider, ToolCall
from toolbus.agent import Agent, ModelFailed, generate

pytestmark = pytest.mark.anyio

KEYS = {"chat": "OPENAI_API_KEY", "responses": "OPENAI_API_KEY"} | {
    "anthropic": "ANTHROPIC_API_KEY",
    "google": "GOOGLE_API_KEY",
}
NOWHERE = "http://127.0.0.1:9/v1"


@pytest.fixture
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in {*KEYS.values(), "GEMINI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"}:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("part", ["#llama", ""], ids=["named", "whatever it serves"])
@pytest.mark.usefixtures("no_keys")
async def test_a_local_server_is_met_by_its_address(part: str) -> None:
    def double(number: int) -> int:
        return 2 * number

    with Provider([[ToolCall("double", {"number": 4})], "It is 8."]) as provider:
        assert served_models(f"{provider.url}/v1/") == ["scripted"]
        assert await generate(f"{provider.url}/v1{part}", "Twice four?", tools=[double]) == "It is 8."
    assert {asked.model for asked in provider.asked} == {part.removeprefix("#") or "scripted"}
    assert provider.asked[1].given[0].text == "8"


async def test_a_local_server_does_not_get_the_key_for_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    with Provider(["Hello."]) as provider:
        await generate(f"{provider.url}/v1#llama", "Hi.")
    assert "sk-secret" not in str(provider.asked[0].headers)


@pytest.mark.parametrize("path", ["", "/nothing/here"])
def test_an_address_that_serves_no_models_wants_a_name(path: str) -> None:
    with Provider([]) as provider, pytest.raises(ModelFailed) as caught:
        Agent(f"{provider.url}{path}")
    assert "HTTP Error 405" in str(caught.value)
    assert str(caught.value).endswith(f"add a model to the URL: {provider.url}{path}#NAME")
    del caught
    gc.collect()  # what was left open would be a warning now


def test_an_address_where_nobody_is_says_so_without_its_password() -> None:
    with pytest.raises(ModelFailed) as caught:
        Agent("http://ann:hunter2@127.0.0.1:9/v1")
    assert "hunter2" not in str(caught.value)
    assert caught.value.model == "http://***@127.0.0.1:9/v1"


async def test_a_local_server_that_is_down_is_named() -> None:
    async with Agent(f"{NOWHERE}#llama", settings={"max_retries": 0}) as agent:
        with pytest.raises(ModelFailed) as caught:
            await final(agent.send("Hi."))
    assert (
        str(caught.value)
        == f"model 'llama': no complete response from {NOWHERE}/: All connection attempts failed"
    )


@pytest.mark.parametrize("name", ["nobody:knows", "gpt-5.1", ""])
def test_a_name_that_nobody_knows_is_an_error(name: str) -> None:
    with pytest.raises(ModelFailed, match="Unknown model") as caught:
        Agent(name)
    assert caught.value.model == name


@pytest.mark.parametrize("wire", KEYS)
@pytest.mark.usefixtures("no_keys")
def test_a_key_that_is_missing_is_named_in_one_line(wire: str) -> None:
    with pytest.raises(ModelFailed) as caught:
        Agent(dict(MODELS)[wire])  # pyright: ignore[reportArgumentType]  a wire by its name
    assert f"`{KEYS[wire]}`" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "Agent('test')" not in str(caught.value)


async def test_a_key_that_is_wrong_is_told_with_the_status() -> None:
    with provided([Fault(401, "Incorrect API key provided")]):
        async with Agent("anthropic:claude-sonnet-5") as agent:
            with pytest.raises(ModelFailed) as caught:
                await final(agent.send("Hi."))
    assert caught.value.status == 401
    assert str(caught.value) == "model 'claude-sonnet-5': HTTP 401: Incorrect API key provided"


def test_what_is_not_installed_is_named() -> None:
    program = (
        "import sys\nfrom importlib import import_module\nsys.modules['pydantic_ai'] = None\n"
        "for name, public in (('toolbus.agent', None), ('toolbus.testing', 'ScriptedModel')):\n"
        "    try:\n        module = import_module(name)\n        getattr(module, public)\n"
        "    except ImportError as error:\n"
        "        print(type(error).__name__, error)"
    )
    agent, testing = printed(program).splitlines()
    for said, part in ((agent, "toolbus.agent"), (testing, "toolbus.testing.ScriptedModel")):
        assert said.startswith(f"ExtraMissing {part} cannot be used: ")
        assert said.endswith('; pip install "toolbus[agent]"')


def test_a_provider_that_is_not_installed_is_named() -> None:
    program = (
        "import sys\nsys.modules['openai'] = None\nfrom toolbus.agent import Agent, ModelFailed\n"
        f"for name in ('openai:gpt-5.1', '{NOWHERE}#llama'):\n"
        "    try:\n        Agent(name)\n    except ModelFailed as error:\n        print(error)"
    )
    by_name, by_address = printed(program).splitlines()
    assert by_name.startswith("model 'openai:gpt-5.1': Please install the `openai` package")
    assert by_address == f"model '{NOWHERE}': needs the openai package; pip install \"toolbus[agent]\""


def printed(program: str) -> str:
    """The output of a program, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_a_model_that_you_made_is_yours_to_close() -> None:
    with provided(["One.", "Two.", "Three."]):
        async with OpenAIChatModel("gpt-5.1") as model:
            assert await generate(model, "1") == "One."
            async with Agent(model) as agent:
                assert await final(agent.send("2")) == "Two."
            assert await generate(model, "3") == "Three."


async def test_all_models_of_a_fallback_that_fail_are_one_failure() -> None:
    with provided([Fault(400, "not I"), Fault(400, "nor I")]):
        async with FallbackModel(OpenAIChatModel("one"), OpenAIChatModel("two")) as model:
            with pytest.raises(ModelFailed, match=r"not I.*nor I"):
                await generate(model, "Hi.")
