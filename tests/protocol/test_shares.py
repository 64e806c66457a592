"""Shares: every world is in exactly one, and none is too small."""

from __future__ import annotations

import pytest

from rookery.config.run import MOST_ACTORS
from rookery.protocol.shares import LEAST_WORLDS, most_shares, shares_of


@pytest.mark.parametrize("worlds", [1, 4, 7, 16, 61])
def test_shares_divide_the_worlds_without_gaps(worlds: int) -> None:
    for actors in range(1, most_shares(worlds) + 1):
        shares = shares_of(worlds, actors)

        numbers = list(range(worlds))
        assert [world for share in shares for world in numbers[share.slice]] == numbers
        assert [share.number for share in shares] == list(range(actors))
        assert {share.count for share in shares} == {actors}


@pytest.mark.parametrize("worlds", [8, 9, 11, 16, 61])
def test_shares_differ_by_one_world_and_none_is_too_small(worlds: int) -> None:
    for actors in range(1, most_shares(worlds) + 1):
        sizes = [share.worlds for share in shares_of(worlds, actors)]

        assert max(sizes) - min(sizes) <= 1
        assert min(sizes) >= LEAST_WORLDS


def test_there_is_always_one_share_and_never_more_than_actors_are_allowed() -> None:
    assert [most_shares(worlds) for worlds in (1, 3, 7, 8)] == [1, 1, 1, 2]
    assert most_shares(4096) == MOST_ACTORS
