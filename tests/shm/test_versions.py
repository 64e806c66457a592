"""Versioned states: two slots, exact versions, and a publisher that can die at any time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from rookery.shm.block import Block
from rookery.shm.counters import Counters
from rookery.shm.versions import VersionedState

SHAPES = {"weights": ((4,), np.float32), "counters": ((2,), np.int64)}


class Killed(BaseException):
    pass


@pytest.fixture
def states() -> Iterator[VersionedState]:
    block = Block.create(VersionedState.layout(SHAPES))
    counters = Block.create(Counters.layout(["version", "other"]))
    yield VersionedState(block, Counters(counters), "version")
    block.close()
    counters.close()


def arrays(version: int) -> dict[str, np.ndarray]:
    return {
        "weights": np.full(4, version + 0.5, np.float32),
        "counters": np.array([version, -version]),
    }


class DiesAfter(dict):
    """Arrays whose publisher is killed before it can write one of them."""

    def __getitem__(self, name: str) -> np.ndarray:
        if name == "counters":
            raise Killed
        return super().__getitem__(name)


def assert_is(state, version):
    assert state.keys() == SHAPES.keys()
    for name, expected in arrays(version).items():
        np.testing.assert_array_equal(state[name], expected)
        assert state[name].dtype == SHAPES[name][1]


def test_there_is_no_version_at_first(states):
    assert states.version == -1


@pytest.mark.parametrize("version", [-2, -1, 0, 1])
def test_nothing_can_be_read_before_the_first_version(states, version):
    with pytest.raises(AssertionError, match=f"version {version} is not available"):
        states.read(version)


def test_a_published_version_is_the_newest_and_can_be_read(states):
    states.publish(0, arrays(0))

    assert states.version == 0
    assert_is(states.read(0), 0)


def test_the_two_newest_versions_can_be_read_exactly(states):
    for version in range(4):
        states.publish(version, arrays(version))

    assert_is(states.read(2), 2)
    assert_is(states.read(3), 3)


@pytest.mark.parametrize("version", [-1, 0, 1, 4, 5])
def test_no_other_version_is_returned_instead(states, version):
    for published in range(4):
        states.publish(published, arrays(published))

    with pytest.raises(AssertionError) as refused:
        states.read(version)

    assert str(refused.value) == f"version {version} is not available; the newest is 3"


def test_the_first_version_has_none_before_it(states):
    states.publish(0, arrays(0))

    with pytest.raises(
        AssertionError, match="version -1 is not available; the newest is 0"
    ):
        states.read(-1)


def test_publishing_does_not_touch_the_version_before(states):
    states.publish(6, arrays(6))
    before = states.read(6)

    states.publish(7, arrays(7))

    assert_is(before, 6)


@pytest.mark.parametrize("version", [1, 2], ids=["odd", "even"])
def test_a_publisher_killed_half_way_leaves_the_version_before(states, version):
    states.publish(version - 1, arrays(version - 1))

    with pytest.raises(Killed):
        states.publish(version, DiesAfter(arrays(version)))

    assert states.version == version - 1
    assert_is(states.read(version - 1), version - 1)


def test_a_killed_publishers_replacement_publishes_the_same_version(states):
    states.publish(0, arrays(0))
    with pytest.raises(Killed):
        states.publish(1, DiesAfter(arrays(1)))

    states.publish(1, arrays(1))

    assert_is(states.read(1), 1)
    assert_is(states.read(0), 0)


def test_the_counter_is_stored_after_the_slot_is_written(states):
    class Watching(Counters):
        def store(self, name: str, value: int) -> None:
            assert_is(slots[1], 1)
            super().store(name, value)
            stored.append((name, value))

    block = Block.create(VersionedState.layout(SHAPES))
    slots = [{name: block[f"{slot}/{name}"] for name in SHAPES} for slot in (0, 1)]
    stored: list[tuple[str, int]] = []
    watched = VersionedState(
        block, Watching(Block.create(Counters.layout(["version"]))), "version"
    )

    watched.publish(1, arrays(1))

    assert stored == [("version", 2)]  # 0 means nothing yet


def test_published_arrays_can_be_changed_afterwards(states):
    published = arrays(0)
    states.publish(0, published)

    published["weights"][...] = -1

    assert_is(states.read(0), 0)


def test_names_can_contain_slashes():
    shapes = {"life/episodes/age": ((1,), np.int64), "1/turn": ((1,), np.int64)}
    states = VersionedState(
        Block.create(VersionedState.layout(shapes)),
        Counters(Block.create(Counters.layout(["v"]))),
        "v",
    )

    states.publish(3, {"life/episodes/age": np.array([5]), "1/turn": np.array([6])})

    assert {name: array.item() for name, array in states.read(3).items()} == {
        "life/episodes/age": 5,
        "1/turn": 6,
    }


def test_parts_are_written_separately_and_published_by_their_own_counters(
    states: VersionedState,
) -> None:
    states.publish(0, arrays(0))
    part = states.part(["weights"], "other", slice(1, 3))

    part.publish(0, {"weights": np.array([7, 8], np.float32)})

    assert part.names == ("weights",)
    assert (states.version, part.version) == (0, 0)
    assert states.read(0)["weights"].tolist() == [0.5, 7, 8, 0.5]
    part.publish(1, {"weights": np.array([9, 9], np.float32)})
    assert (states.version, part.version) == (0, 1)
    assert states.read(0)["weights"].tolist() == [0.5, 7, 8, 0.5]
