"""Main is killed in every phase of a run: nothing is left, and the run resumes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import pytest

import rookery
from tests.small import HUNT, overrides
from tests.stress.kill_main import Death, Victim

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

EVERY = 4
KILLED = {
    **HUNT,
    "rounds": 60,
    "replay.kind": "prioritised",
    "checkpoints.every_rounds": 2,
    "evaluate.every_rounds": EVERY,
    "evaluate.episodes": 8,
}
PHASES: dict[str, Callable[[Victim], None]] = {
    "before there is a run": Victim.await_start,
    "starting processes": Victim.await_children,
    "playing and learning": lambda victim: victim.await_rounds(5),
    "saving": Victim.await_saving,
    "evaluating": lambda victim: victim.await_evaluation(EVERY),
    "with its group": lambda victim: victim.await_rounds(2),
}


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    folder = tmp_path_factory.mktemp("killed") / "run"
    train = ["train", "treasurehunt", "workers=1", *overrides(KILLED), "--run", str(folder)]
    victim = Victim(folder, train)
    yield victim
    victim.close()


@pytest.fixture(scope="module")
def deaths(victim: Victim) -> list[Death]:
    """Main is killed in every phase, and the run is started again or resumed each time."""
    deaths = []
    for phase, wait in PHASES.items():
        if not victim.can_resume:
            shutil.rmtree(victim.folder, ignore_errors=True)
        victim.start()
        wait(victim)
        deaths.append(victim.kill(phase, group=phase == "with its group"))
    return deaths


@pytest.mark.shows("F5", "B14")
def test_within_a_second_nothing_is_left_of_a_run_whose_main_is_killed(
    deaths: list[Death],
) -> None:
    assert [death.phase for death in deaths] == [*PHASES]
    assert min(death.others for death in deaths[2:]) >= 2
    assert [death.left for death in deaths] == [[]] * 6
    assert [death.shared for death in deaths] == [[]] * 6


@pytest.mark.shows("F4", "F5")
def test_a_run_whose_main_was_killed_in_every_phase_ends_with_the_same_bits(
    deaths: list[Death], victim: Victim, reference_digest: Callable[..., str]
) -> None:
    assert len(deaths) == len(PHASES)

    victim.finish()

    assert rookery.Run(victim.folder).digest()["run"] == reference_digest(
        "treasurehunt", **KILLED
    )
    assert victim.rounds == list(range(1, 61))
    evaluated = [line["round"] for line in victim.lines("evaluations.jsonl")]
    assert sorted(set(evaluated)) == list(range(EVERY, 61, EVERY))
    assert [path.name for path in victim.folder.glob("checkpoints/partial-*")] == []
