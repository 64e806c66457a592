"""Never torn, in short: real processes share memory at full speed, and nothing is wrong.

`python -m tests.stress.torn` is the same with 10^7 rows and 10^5 publications.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.stress.torn import Outcome, Runner
from tests.stress.torn_components import BUGS, DAMAGED, NO_BUG, Case, planted

pytestmark = pytest.mark.processes

ROUNDS = 250
PLANTED_ROUNDS = 2000
"""At most; a case ends when its bug is found."""
LIMIT_SECONDS = 60.0
EXACT_COMPARISONS = 8
"""In a round: two by the actor for each agent, one by its learner and one by main."""

OutcomeOf = Callable[[Case], Outcome]


@pytest.fixture(scope="module")
def outcome_of() -> Iterator[OutcomeOf]:
    with Runner() as runner:
        yield lambda case: runner.run(replace(case, limit_seconds=LIMIT_SECONDS))


@pytest.mark.shows("B1", "B3", "C1")
@pytest.mark.parametrize("schedule", ["pipelined", "sync"])
def test_what_readers_see_is_never_torn_stale_or_foreign(outcome_of, schedule):
    case = Case(NO_BUG, schedule, ROUNDS)

    outcome = outcome_of(case)

    assert outcome.violations == 0, outcome.findings
    assert outcome.findings["compared"] == EXACT_COMPARISONS * ROUNDS
    assert outcome.rows == ROUNDS * case.turns * case.worlds * case.agents
    assert outcome.publications == (ROUNDS + 1) * case.agents


@pytest.mark.shows("B1", "B3", "C1")
def test_in_async_overtaken_copies_are_discarded_and_the_others_are_right(outcome_of):
    case = Case(NO_BUG, "async", ROUNDS)

    outcome = outcome_of(case)

    assert outcome.violations == 0, outcome.findings
    # By learners and main, and by the observer.
    assert outcome.findings["compared"] > 2 * case.agents * ROUNDS
    assert outcome.rows == ROUNDS * case.turns * case.worlds * case.agents


@pytest.mark.shows("B12")
def test_damaged_rows_are_refused_and_never_used(outcome_of):
    outcome = outcome_of(Case(DAMAGED, "pipelined", ROUNDS))

    assert outcome.findings["refused"] > 0
    assert outcome.used == 0, outcome.findings


@pytest.mark.shows("B12")
def test_without_the_checksum_damaged_rows_would_be_used(outcome_of):
    outcome = outcome_of(planted("missing checksum", PLANTED_ROUNDS, stop_at_first=True))

    assert outcome.used > 0
    assert outcome.findings["refused"] == 0


@pytest.mark.parametrize("bug", [name for name in BUGS if name != "missing checksum"])
def test_a_planted_bug_is_found(outcome_of, bug):
    outcome = outcome_of(planted(bug, PLANTED_ROUNDS, stop_at_first=True))

    assert outcome.violations > 0
    assert outcome.findings["died"] == 0  # found by comparing, not by crashing
