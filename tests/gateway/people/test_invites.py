"""One-time links: their users, and their end."""

import asyncio
from pathlib import Path

import pytest

from tests.gateway.people.door import door
from tests.inside.gateway import (
    BROWSER,
    BROWSER_SECONDS,
    INVITE,
    INVITE_SECONDS,
    MOST_BROWSERS,
    Person,
    PersonRegistry,
    person_files,
)

pytestmark = pytest.mark.anyio
ANN = Person(name="ann", user="ann")


class Time:
    """A clock that a test sets."""

    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture
def registry(tmp_path: Path, clock: Time) -> PersonRegistry:
    return PersonRegistry(person_files(tmp_path / "toolbus.yaml", clock))


async def test_of_many_who_use_a_link_at_once_one_gets_in(registry: PersonRegistry) -> None:
    code, made = await registry.invite(ANN, ["default"])
    found = await asyncio.gather(*(registry.use(code) for _ in range(10)))
    assert [one for one in found if one is not None] == [made]


async def test_a_link_ends_with_its_time_a_new_one_and_a_revocation(
    registry: PersonRegistry, clock: Time
) -> None:
    first, _ = await registry.invite(ANN, ["default"])
    second, _ = await registry.invite(ANN, ["default"])
    assert await registry.find(INVITE, first) is None
    assert await registry.find(INVITE, second) is not None
    assert await registry.revoke(INVITE, "ann") == 1
    assert await registry.use(second) is None
    third, _ = await registry.invite(ANN, ["default"])
    clock.now += INVITE_SECONDS
    assert await registry.use(third) is None


async def test_another_process_knows_a_browser_until_it_signs_out_or_its_time_ends(
    registry: PersonRegistry, clock: Time, tmp_path: Path
) -> None:
    other = PersonRegistry(person_files(tmp_path / "toolbus.yaml", clock))
    secret = await registry.sign_in(ANN, ["default"])
    found = await other.find(BROWSER, secret)
    assert found is not None
    assert (found.person, found.views) == (ANN, ("default",))
    await other.sign_out(secret)
    assert await registry.find(BROWSER, secret) is None
    again = await registry.sign_in(ANN, ["default"])
    clock.now += BROWSER_SECONDS
    assert await other.find(BROWSER, again) is None


async def test_a_sign_in_gives_another_secret_and_the_oldest_browser_gives_way(
    registry: PersonRegistry,
) -> None:
    first = await registry.sign_in(ANN, ["default"])
    assert await registry.sign_in(ANN, ["default"], first) != first
    assert await registry.find(BROWSER, first) is None
    secrets = [await registry.sign_in(ANN, ["default"]) for _ in range(MOST_BROWSERS)]
    assert len(await registry.all(BROWSER)) == MOST_BROWSERS
    assert await registry.find(BROWSER, secrets[-1]) is not None


async def test_files_have_no_secret(registry: PersonRegistry) -> None:
    code, _ = await registry.invite(ANN, ["default"])
    secret = await registry.sign_in(ANN, ["default"])
    files = map(Path, (registry.values.place_of(kind) for kind in (INVITE, BROWSER)))
    texts = await asyncio.to_thread(lambda: [file.read_text() for file in files])
    assert all("ann" in text for text in texts)
    assert not any(code in text or secret in text for text in texts)


async def test_a_look_at_the_link_does_not_use_it_and_its_form_does(tmp_path: Path) -> None:
    async with door(tmp_path) as opened:
        code = await opened.invite("ann")
        for method in ("HEAD", "GET", "GET"):
            looked = await opened.http.request(method, f"{opened.url}/invite", params={"code": code})
            assert looked.status_code == 200
            assert "set-cookie" not in looked.headers
        assert "Sign in as ann" in looked.text
        used = await opened.post("/invite", {"code": code})
        assert (used.status_code, used.headers["location"]) == (303, "/sign-in")
        assert "Signed in as ann" in (await opened.get()).text
        again = await opened.post("/invite", {"code": code})
        assert again.status_code == 400
        assert "That link was used before" in again.text


async def test_the_whole_link_can_be_pasted_on_the_way_from_a_client(tmp_path: Path) -> None:
    async with door(tmp_path) as opened:
        request = await opened.requests.ask()
        page = await opened.get(request=request)
        assert "Sign in to connect Desk" in page.text
        link = f" {opened.url}/invite?code={await opened.invite()}\n"
        used = await opened.post("/invite", {"code": link, "request": request})
        assert used.headers["location"] == f"/sign-in?request={request}"
        assert "Connect Desk?" in (await opened.http.get(f"{opened.origin}{used.headers['location']}")).text


async def test_a_cookie_of_https_belongs_to_this_host_alone(tmp_path: Path) -> None:
    async with door(tmp_path, public_url="https://tools.example.com/bus", hosts=["127.0.0.1"]) as opened:
        origin = "https://tools.example.com"
        used = await opened.post("/invite", {"code": await opened.invite()}, origin=origin)
        name, _, rest = used.headers["set-cookie"].partition("=")
        assert name == "__Host-toolbus_person"
        assert {"Path=/", "HttpOnly", "SameSite=Lax", "Secure"} <= set(rest.split("; "))
        assert used.headers["location"] == "/bus/sign-in"
