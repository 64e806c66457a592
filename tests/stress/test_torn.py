"""What `torn` compares with: correct rows and states pass, and no others; its report."""

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
from tests.stress import torn_data as data
from tests.stress.torn_components import Case, Components, reader_of
from tests.stress.torn_processes import KINDS, Actor, SlowNames

CASE = Case("none", "pipelined", rounds=10, worlds=16)
TURNS = 31


class NoFindings:
    def add(self, *_: object) -> None:
        pass


@pytest.fixture
def arena() -> Iterator[Arena]:
    arena = Components().arena(CASE)
    arena.allocate()
    actor = Actor(CASE, Components(), arena, NoFindings())  # type: ignore[arg-type]
    for turn in range(TURNS):
        actor.play_turn(turn)
    yield arena
    arena.close()


@pytest.fixture
def reader(arena: Arena) -> ReplayReader:
    reader = reader_of(0, arena.rows("0"), CASE)
    reader.advance(TURNS)
    return reader


@pytest.fixture
def batch(reader: ReplayReader) -> Batch:
    return reader.batch(reader.usable)


def error_of(reader: ReplayReader, batch: Batch, agent: int = 0) -> str | None:
    return data.batch_error(agent, reader.usable, CASE.worlds, batch)


# Rows.


def test_a_reader_finds_the_transitions_that_it_should(reader):
    expected = data.usable(TURNS, CASE.window, CASE.worlds)

    assert len(expected) > CASE.worlds
    np.testing.assert_array_equal(reader.usable, expected)


def test_a_correct_batch_passes(reader, batch):
    assert error_of(reader, batch) is None


def test_a_batch_of_another_agent_is_foreign(reader, batch):
    assert error_of(reader, batch, agent=1) == "foreign"


def test_a_batch_of_an_earlier_turn_is_stale(reader, batch):
    views = batch.seen["view"]
    earlier = np.where(views != 0, views - (1 << 16), 0)  # zeros: before the first row

    assert error_of(reader, replace(batch, seen={"view": earlier})) == "stale"


def test_a_row_with_one_number_of_another_turn_is_torn(reader, batch):
    batch.seen["view"][5, -1, 3] += 1 << 16

    assert error_of(reader, batch) == "torn"


@pytest.mark.parametrize(
    "column", ["actions", "returns", "discounts", "legal", "next_legal"]
)
def test_a_row_whose_columns_do_not_belong_together_is_torn(reader, batch, column):
    wrong = np.roll(getattr(batch, column), 1, axis=0)

    assert error_of(reader, replace(batch, **{column: wrong})) == "torn"


# States.


def test_a_correct_state_passes():
    assert data.state_error(1, 7, data.state(1, 7)) is None


@pytest.mark.parametrize(
    ("agent", "version", "error"), [(1, 8, "stale"), (0, 7, "foreign"), (0, 8, "foreign")]
)
def test_a_whole_state_of_another_agent_or_version_is_foreign_or_stale(
    agent, version, error
):
    assert data.state_error(1, 7, data.state(agent, version)) == error


def test_a_state_with_arrays_of_two_versions_is_torn():
    name = data.NAMES[-1]
    mixed = data.state(1, 7) | {name: data.state(1, 8)[name]}

    assert data.state_error(1, 7, mixed) == "torn"


def test_a_snapshot_of_another_boundary_is_stale():
    assert data.snapshot_error(3, data.snapshot(3)) is None
    assert data.snapshot_error(3, data.snapshot(1)) == "stale"


def test_slow_names_count_how_often_a_copy_was_started():
    names = SlowNames(("a", "b", "c"))

    assert [*names] == [*names] == ["a", "b", "c"]
    assert names.passes == 2


# The report.


class FakeRunner(nullcontext[None]):
    """Has a ready answer for every case."""

    findings: dict[str, dict[str, int]]
    """What is found in a case, by its name; elsewhere nothing is."""
    names: list[str]

    def __enter__(self) -> Any:
        return self

    def run(self, case: Case) -> torn.Outcome:
        self.names.append(case.name)
        counts = dict.fromkeys(KINDS, 0) | self.findings.get(case.name, {})
        return torn.Outcome(counts, 2.0, 10, 20, 30, 40)


SOUND = {bug: {"torn": 2, "refused": 3} for bug in torn.BUGS} | {
    "damaged memory": {"refused": 4}
}


def report_of(monkeypatch: pytest.MonkeyPatch, **findings: dict[str, int]) -> torn.Report:
    by_name = {name.replace("_", " "): counts for name, counts in findings.items()}
    monkeypatch.setattr(FakeRunner, "findings", SOUND | by_name, raising=False)
    monkeypatch.setattr(FakeRunner, "names", [], raising=False)
    monkeypatch.setattr(torn, "Runner", FakeRunner)
    return torn.run(lambda step: None)


def test_the_report_has_every_schedule_and_every_planted_bug(monkeypatch):
    report = report_of(monkeypatch)

    assert FakeRunner.names == ["none"] * 3 + ["damaged memory", *torn.BUGS]
    assert report.problems == []
    lines = [" ".join(line.split()) for line in report.lines]
    assert "all: rows 30 committed" in lines
    assert "async: wraps 20 per second" in lines
    assert "damaged memory: used 0 times" in lines
    for bug in torn.BUGS:
        line = f"planted, {bug}: found 5 times, 3 of them by the product itself"
        assert line in lines


@pytest.mark.parametrize(
    ("findings", "problem"),
    [
        ({"none": {"torn": 1}}, "sync: violations"),
        ({"gate_ignored": {"torn": 0}}, "planted bug not found: gate ignored"),
        ({"damaged_memory": {"refused": 4, "torn": 1}}, "not always refused"),
        ({"damaged_memory": {"refused": 0}}, "not always refused"),
    ],
)
def test_a_torn_row_and_a_bug_that_is_not_found_make_the_exit_code_1(
    monkeypatch, capsys, findings, problem
):
    report = report_of(monkeypatch, **findings)
    monkeypatch.setattr(torn, "run", lambda progress: report)

    with pytest.raises(SystemExit) as ended:
        torn.main()

    assert ended.value.code == 1
    assert problem in capsys.readouterr().out
