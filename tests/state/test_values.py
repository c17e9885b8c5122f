"""Values behave the same in private files and in a store."""

import asyncio
import json
import stat
from collections.abc import AsyncGenerator
from pathlib import Path
from threading import Barrier

import pytest

from tests.inside.state import (
    Cipher,
    DocumentForm,
    FileForm,
    LockBusy,
    Patience,
    PrivateFolder,
    PrivateValues,
    Records,
    Store,
    Values,
    parse_store_url,
    take_file,
)

pytestmark = pytest.mark.anyio
SUM = b"[1, 2]"
WRONG = r"is damaged|belongs to another config"
DOCUMENT = DocumentForm(path="sums.json", owner="me", entries="sums", name_of=lambda one: str(sum(one)))


def files_in(folder: Path) -> PrivateValues:
    forms = {
        "sum": DOCUMENT,
        "map": DocumentForm(path="map.json", is_replaceable=True),
        "file": FileForm(path="each/{name}", is_secret=True),
        "lock": FileForm(path="locks/{name}"),
    }
    return PrivateValues(lambda: PrivateFolder(folder), forms)


@pytest.fixture(params=["files", "store"])
async def values(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Values]:
    if request.param == "files":
        yield files_in(tmp_path / "state")
    else:
        async with Store(parse_store_url(f"sqlite:///{tmp_path / 'store.db'}"), Cipher([b"k" * 32])) as store:
            yield store


async def test_a_value_is_kept_replaced_and_removed(values: Values) -> None:
    for kind in ("sum", "map", "file"):
        assert await values.get(kind, "3") is None
        await values.put(kind, "3", b"[3]")
        await values.put(kind, "3", SUM)
        assert await values.get(kind, "3") == SUM
        assert await values.keep(kind, "3", 60)
        assert [await values.remove(kind, "3") for _ in range(2)] == [True, False]
        assert not await values.keep(kind, "3", 60)


async def test_of_several_who_add_a_value_one_does(values: Values) -> None:
    for kind in ("sum", "map", "file"):
        added = await asyncio.gather(*(values.add(kind, "3", SUM) for _ in range(5)))
        assert sorted(added) == [False, False, False, False, True]
        assert await values.get(kind, "3") == SUM
    used = await asyncio.gather(*(values.add("file", "used") for _ in range(5)))
    assert sorted(used) == [False, False, False, False, True]


async def test_records_are_read_again_when_they_have_changed(values: Values) -> None:
    records = Records(values, "sum", sum)
    assert await asyncio.to_thread(records.all) == {}
    await values.put("sum", "3", SUM)
    await values.put("sum", "4", b"[4]")
    assert await asyncio.to_thread(records.all) == {"3": 3, "4": 4}
    version = await values.version("sum")
    assert await values.version("sum") == version
    await values.remove("sum", "3")
    assert await values.version("sum") != version
    assert await asyncio.to_thread(records.all) == {"4": 4}
    assert [await values.clear("sum") for _ in range(2)] == [1, 0]
    assert await asyncio.to_thread(records.all) == {}


async def test_a_lock_is_held_by_one(values: Values) -> None:
    async with values.hold("name", 5), values.hold("other", 5):
        with pytest.raises(LockBusy, match="in use"):
            async with values.hold("name", 0.05):
                pass
    async with values.hold("name", 5):
        pass


def modes_in(folder: Path) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


async def test_files_of_several_processes_lose_no_change(tmp_path: Path) -> None:
    def change(number: int) -> None:
        values = files_in(tmp_path)  # as another process has it
        values.wait(values.put("sum", str(number), f"[{number}]".encode()))

    await asyncio.gather(*(asyncio.to_thread(change, number) for number in range(20)))
    values = files_in(tmp_path)
    assert set(await values.items("sum")) == {str(number) for number in range(20)}
    assert modes_in(tmp_path) == {0o600}


async def test_a_damaged_document_is_refused_and_only_replaced_if_nothing_is_lost(tmp_path: Path) -> None:
    values = files_in(tmp_path)
    for content in ("", "[]", json.dumps({"file": "you", "sums": []}), '{"file": "me", "sums": ["x"]}'):
        (tmp_path / "sums.json").write_text(content)
        with pytest.raises(ValueError, match=WRONG):
            await values.items("sum")
        with pytest.raises(ValueError, match=WRONG):
            await values.put("sum", "3", SUM)
        assert (tmp_path / "sums.json").read_text() == content
    (tmp_path / "map.json").write_text("{")
    await values.put("map", "3", SUM)
    assert await values.items("map") == {"3": SUM}
    assert await values.clear("sum") == 0
    assert await values.items("sum") == {}


async def test_of_several_processes_that_add_a_file_one_does(tmp_path: Path) -> None:
    """A key that two of them make at once must be one key, or what one has sealed is lost on the other."""
    start = Barrier(4, timeout=30)

    def add(number: int) -> tuple[bool, bytes | None]:
        values = files_in(tmp_path)  # as another process has it
        start.wait()
        is_new = values.wait(values.add("file", "key", bytes([number]) * 32))
        return is_new, values.wait(values.get("file", "key"))

    for _ in range(10):
        found = await asyncio.gather(*(asyncio.to_thread(add, number) for number in range(4)))
        assert sorted(is_new for is_new, _ in found) == [False] * 3 + [True]
        assert len({value for _, value in found}) == 1
        await files_in(tmp_path).remove("file", "key")


async def test_nothing_that_is_cleared_comes_back_with_a_change_of_another_process(tmp_path: Path) -> None:
    values, cleared = files_in(tmp_path), asyncio.Event()
    await values.put("map", "3", SUM)
    loop = asyncio.get_running_loop()

    def clear() -> int:
        found = values.wait(files_in(tmp_path).clear("map"))
        loop.call_soon_threadsafe(cleared.set)
        return found

    changing = take_file(tmp_path / "map.json.lock", Patience.of(5), names_holder=False)
    clearing = asyncio.ensure_future(asyncio.to_thread(clear))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(cleared.wait(), 0.2)
    assert await values.items("map") == {"3": SUM}
    changing.release()
    assert await clearing == 1
    assert await values.items("map") == {}
