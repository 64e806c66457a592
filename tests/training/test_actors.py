"""How many actors play: as many as set, unless bits, worlds or the schedule forbid it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rookery.algorithms.agents import build_agents
from rookery.algorithms.grouping import groups_of
from rookery.errors import ConfigError
from rookery.evaluation.play import agents_of
from rookery.runs.configure import configure
from rookery.training.actors import resolve_actors

DRAWING = '''
import numpy as np

class Drawing:
    """Values with noise in them, drawn while acting."""

    def __init__(self, spec, settings):
        self.actions = spec.num_actions

    def values(self, seen):
        worlds = len(next(iter(seen.values())))
        return np.random.random((worlds, self.actions))

    def update(self, batch):
        return {}

    def state(self):
        return {"nothing": np.zeros(1)}

    def load(self, state):
        pass
'''


def resolve(**settings: Any) -> tuple[int, str]:
    small = {"network.width": 16, "batch_size": 8, **settings}
    entry, config = configure("treasurehunt", settings=small)
    groups = groups_of(build_agents(config, agents_of(entry, config)))
    return resolve_actors(config, groups)


@pytest.mark.parametrize("algorithm", ["iqn", "dqn", "ppo", "vtrace", "recurrent_dqn"])
def test_agents_act_with_the_same_bits_in_shares(algorithm: str) -> None:
    assert resolve(actors=4, worlds=16, algorithm=algorithm) == (4, "")


def test_auto_is_one_actor_so_far_and_one_needs_no_check() -> None:
    assert resolve(actors="auto") == resolve(actors=1) == (1, "")
    assert resolve(actors=1, schedule="async") == (1, "")


@pytest.mark.parametrize(
    ("worlds", "played"), [(3, "one actor plays"), (11, "2 actors play")]
)
def test_with_few_worlds_there_are_fewer_actors(worlds: int, played: str) -> None:
    actors, line = resolve(actors=3, worlds=worlds)

    assert actors == max(1, worlds // 4)
    assert line == (
        f"actors is 3, but there are {worlds} worlds, and each actor plays at least 4: "
        f"{played}."
    )


def test_async_with_several_actors_is_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        resolve(actors=2, schedule="async")

    assert str(refused.value) == (
        "actors is 2, but schedule is async, in which learners take rows turn by turn from "
        "a single actor: set actors=1, or another schedule."
    )


def test_an_algorithm_that_draws_while_acting_has_one_actor(tmp_path: Path) -> None:
    file = tmp_path / "drawing.py"
    file.write_text(DRAWING)

    actors, line = resolve(
        actors=2, worlds=16, agents={"1": {"algorithm": f"{file}:Drawing"}}
    )

    assert actors == 1
    assert line == (
        "actors is 2, but agent 1 does not act with the same bits in a share of the worlds "
        "as in all of them: one actor plays."
    )
