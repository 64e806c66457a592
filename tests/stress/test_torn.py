"""What `torn` compares with: the right rows and states pass, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rookery.protocol.arena import Arena
from rookery.replay.buffer import Batch, ReplayReader
from tests.stress import torn
from tests.stress import torn_stamps as stamps
from tests.stress.torn_parts import KINDS, Case, Parts, Slowly, reader_of
from tests.stress.torn_roles import Player

CASE = Case("none", "pipelined", rounds=10, worlds=16)
TURNS = 31


class NoFindings:
    def add(self, *_: object) -> None:
        pass


@pytest.fixture
def arena() -> Iterator[Arena]:
    made = Parts().arena(CASE)
    made.allocate()
    player = Player(CASE, Parts(), made, NoFindings())  # type: ignore[arg-type]
    for turn in range(TURNS):
        player._play_turn(turn)
    yield made
    made.close()


@pytest.fixture
def reader(arena: Arena) -> ReplayReader:
    made = reader_of(0, arena.rows("0"), CASE)
    made.advance(TURNS)
    return made


@pytest.fixture
def batch(reader: ReplayReader) -> Batch:
    return reader.batch(reader.usable)


def judge(reader: ReplayReader, batch: Batch, agent: int = 0) -> str | None:
    return stamps.judge_batch(agent, reader.usable, CASE.worlds, batch)


# Rows.


def test_the_steps_that_a_reader_finds_are_those_that_are_due(reader):
    due = stamps.usable(TURNS, CASE.window, CASE.worlds)

    assert len(due) > CASE.worlds
    np.testing.assert_array_equal(reader.usable, due)


def test_a_right_batch_passes(reader, batch):
    assert judge(reader, batch) is None


def test_a_batch_of_another_agent_is_foreign(reader, batch):
    assert judge(reader, batch, agent=1) == "foreign"


def test_a_batch_of_an_earlier_turn_is_stale(reader, batch):
    seen = batch.seen["sight"]
    before = np.where(seen != 0, seen - (1 << 16), 0)  # zeros: before the first row

    assert judge(reader, replace(batch, seen={"sight": before})) == "stale"


def test_a_row_with_one_number_of_another_turn_is_torn(reader, batch):
    batch.seen["sight"][5, -1, 3] += 1 << 16

    assert judge(reader, batch) == "torn"


@pytest.mark.parametrize(
    "column", ["actions", "returns", "discounts", "legal", "next_legal"]
)
def test_a_row_whose_columns_do_not_belong_together_is_torn(reader, batch, column):
    wrong = np.roll(getattr(batch, column), 1, axis=0)

    assert judge(reader, replace(batch, **{column: wrong})) == "torn"


# States.


def test_a_right_state_passes():
    assert stamps.judge_state(1, 7, stamps.state(1, 7)) is None


@pytest.mark.parametrize(
    ("agent", "version", "wrong"), [(1, 8, "stale"), (0, 7, "foreign"), (0, 8, "foreign")]
)
def test_a_whole_state_that_is_not_due_is_stale_or_foreign(agent, version, wrong):
    assert stamps.judge_state(1, 7, stamps.state(agent, version)) == wrong


def test_a_state_with_arrays_of_two_versions_is_torn():
    name = stamps.NAMES[-1]
    mixed = stamps.state(1, 7) | {name: stamps.state(1, 8)[name]}

    assert stamps.judge_state(1, 7, mixed) == "torn"


def test_a_snapshot_of_another_border_is_stale():
    assert stamps.judge_snapshot(3, stamps.snapshot(3)) is None
    assert stamps.judge_snapshot(3, stamps.snapshot(1)) == "stale"


def test_how_often_a_copy_was_begun_is_counted():
    names = Slowly(("a", "b", "c"))

    assert [*names] == [*names] == ["a", "b", "c"]
    assert names.times == 2


# The report.


def test_the_report_has_every_schedule_and_every_planted_bug(monkeypatch):
    ran = []

    class Pretending(nullcontext[None]):
        def __enter__(self) -> Any:
            return self

        def run(self, case: Case) -> torn.Outcome:
            ran.append(case.name)
            found = dict.fromkeys(KINDS, 0) | {"torn": 2, "refused": 3}
            return torn.Outcome(found, 2.0, 10, 20, 30, 40)

    monkeypatch.setattr(torn, "Runner", Pretending)

    figures = torn.run(lambda done: None).figures

    assert ran == ["none"] * 3 + ["damaged memory", *torn.BUGS]
    assert figures["all: rows"] == {"value": 30, "unit": "committed"}
    assert figures["async: wraps"] == {"value": 20.0, "unit": "per second"}
    assert figures["damaged memory: used"] == {"value": 2, "unit": "times"}
    for bug in torn.BUGS:
        assert figures[f"planted, {bug}: found"]["value"] == 5
