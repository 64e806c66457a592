"""The lines about a search."""

from __future__ import annotations

from rookery.runs.folder import MOST_NAMED
from rookery.sweeps.search_status import Best, SearchStatus

BEST = Best("trial-7", "trained", 3.91234, {"discount": "0.9"}, "rookery train tag …")


def test_trials_that_are_pruned_are_named_with_the_round_if_it_is_known() -> None:
    pruned = {"trial-1": 20, "trial-4": None}

    status = SearchStatus(40, done=5, failed=1, running=2, pruned=pruned, best=BEST)

    assert status.lines() == [
        "40 trials: 5 done, 2 pruned, 1 failed, 2 running, 30 to come",
        "pruned: trial-1 (round 20), trial-4",
        "best: trial-7, trained 3.912: discount=0.9; with new seeds: rookery train tag …",
    ]


def test_of_many_pruned_trials_the_first_are_named() -> None:
    pruned = {f"trial-{number}": 10 for number in range(MOST_NAMED + 1)}

    status = SearchStatus(40, done=0, failed=0, running=0, pruned=pruned, best=None)

    assert len(status.lines()) == 2
    assert status.lines()[1].endswith(f"trial-{MOST_NAMED - 1} (round 10), …")
