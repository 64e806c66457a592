"""Reports: what was written is read, in a place of fixed size."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rookery.errors import RookeryError
from rookery.shm.block import Block
from rookery.shm.reports import Reports, ReportTooLong

SIZES = {"actor": (2, 64), "learner 0": (3, 16)}


@pytest.fixture
def block() -> Iterator[Block]:
    made = Block.create(Reports.layout(SIZES))
    yield made
    made.close()


@pytest.fixture
def reports(block: Block) -> Reports:
    return Reports(block, "actor")


@pytest.mark.parametrize(
    "about",
    [
        {"metrics": {"loss": 0.1, "return": -3.0}, "seconds": 2.5},
        {"name": "Größe ✓"},
        [1, [2, None], True],
        {},
        "",
        0.1 + 0.2,
    ],
    ids=["metrics", "letters", "list", "nothing", "no letters", "every bit"],
)
def test_what_was_written_is_read(reports, about):
    reports.write(1, about)

    assert reports.read(1) == about


def test_reports_of_as_many_rounds_as_there_are_slots_are_kept(reports):
    for number in (6, 7):
        reports.write(number, {"round": number})

    assert [reports.read(number) for number in (6, 7)] == [{"round": 6}, {"round": 7}]


def test_a_report_takes_the_place_of_the_oldest(reports):
    for number in (6, 7, 8):
        reports.write(number, {"round": number})

    assert reports.read(8) == {"round": 8}
    assert reports.read(7) == {"round": 7}


def test_nothing_of_a_longer_report_remains_behind_a_shorter_one(reports):
    reports.write(1, "x" * 50)

    reports.write(3, "y")

    assert reports.read(3) == "y"


def test_writers_have_places_of_their_own(block):
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
    about = "x" * (size - 2)  # and two quotation marks

    reports.write(0, about)

    assert reports.read(0) == about
    block.close()


def test_a_report_that_is_too_long_is_an_error_in_words(reports):
    with pytest.raises(ReportTooLong) as refused:
        reports.write(7, "x" * 63)

    assert isinstance(refused.value, RookeryError)
    assert str(refused.value) == (
        "the report of round 7 takes 65 bytes, and there is room for 64: let the "
        "algorithm report fewer figures."
    )


def test_a_report_that_is_too_long_leaves_the_one_before_as_it_was(reports):
    reports.write(7, "whole")

    with pytest.raises(ReportTooLong):
        reports.write(9, "x" * 63)

    assert reports.read(7) == "whole"
