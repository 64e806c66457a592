"""Reports: what was written is read, in slots of fixed size."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rookery.errors import RookeryError
from rookery.shm.block import Block
from rookery.shm.reports import Reports, ReportTooLong

SIZES = {"actor": (2, 64), "learner 0": (3, 16)}


@pytest.fixture
def block() -> Iterator[Block]:
    block = Block.create(Reports.layout(SIZES))
    yield block
    block.close()


@pytest.fixture
def reports(block: Block) -> Reports:
    return Reports(block, "actor")


@pytest.mark.parametrize(
    "report",
    [
        {"metrics": {"loss": 0.1, "return": -3.0}, "seconds": 2.5},
        {"name": "Größe ✓"},
        [1, [2, None], True],
        {},
        "",
        0.1 + 0.2,
    ],
    ids=["metrics", "not ASCII", "list", "empty", "empty text", "every bit"],
)
def test_what_was_written_is_read(reports, report):
    reports.write(1, report)

    assert reports.read(1) == report


def test_as_many_reports_as_slots_are_kept(reports):
    for number in (6, 7):
        reports.write(number, {"round": number})

    assert [reports.read(number) for number in (6, 7)] == [{"round": 6}, {"round": 7}]


def test_a_report_replaces_the_oldest(reports):
    for number in (6, 7, 8):
        reports.write(number, {"round": number})

    assert reports.read(8) == {"round": 8}
    assert reports.read(7) == {"round": 7}


def test_nothing_of_a_longer_report_remains_after_a_shorter_one(reports):
    reports.write(1, "x" * 50)

    reports.write(3, "y")

    assert reports.read(3) == "y"


def test_each_writer_has_its_own_slots(block):
    actor, learner = Reports(block, "actor"), Reports(block, "learner 0")

    actor.write(0, "mine")
    learner.write(0, "yours")

    assert (actor.read(0), learner.read(0)) == ("mine", "yours")


def test_another_reader_of_the_block_reads_the_same(block, reports):
    reports.write(5, [5])

    assert Reports(block, "actor").read(5) == [5]


@pytest.mark.parametrize("size", [13, 16], ids=["rounded up", "even"])
def test_a_report_of_the_planned_size_fits(size):
    block = Block.create(Reports.layout({"actor": (1, size)}))
    reports = Reports(block, "actor")
    report = "x" * (size - 2)  # and two quotation marks

    reports.write(0, report)

    assert reports.read(0) == report
    block.close()


def test_a_report_that_is_too_long_is_refused_in_one_line(reports):
    with pytest.raises(ReportTooLong) as refused:
        reports.write(7, "x" * 63)

    assert isinstance(refused.value, RookeryError)
    assert str(refused.value) == (
        "the report of round 7 has 65 bytes, but its slot only 64: have the algorithm "
        "report fewer metrics."
    )


def test_a_report_that_is_too_long_leaves_its_slot_as_it_was(reports):
    reports.write(7, "whole")

    with pytest.raises(ReportTooLong):
        reports.write(9, "x" * 63)

    assert reports.read(7) == "whole"
