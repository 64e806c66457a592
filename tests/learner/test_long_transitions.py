"""Steps that are longer than a round: on-policy learners learn from them, or say so."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from rookery.algorithms.agents import capacity_of
from rookery.algorithms.base import LEFT_OUT
from rookery.algorithms.registry import find_algorithm
from rookery.learner.learner import reader_of
from rookery.replay.buffer import ReplayWriter, slots_needed
from rookery.replay.rows import Rows
from rookery.runs.configure import configure
from rookery.runs.session import Session
from rookery.shm.block import Block
from tests.algorithms.conftest import agent_of

ON_POLICY = ["ppo", "vtrace", "recurrent_ppo"]


def member_of(name):
    return replace(agent_of(frames=1), algorithm=find_algorithm(name), learns=True)


class Absent:
    """An agent in two worlds: in the second one it is out from turn 1 to `back`."""

    def __init__(self, name, turns, back):
        self.agent, self.turns, self.back = member_of(name), turns, back
        capacity = capacity_of(self.agent, turns, 2)
        slots = slots_needed(capacity, 2, turns, 1)
        agent = Rows.layout(self.agent.spec, 2, slots, self.agent.hidden)
        self.rows = Rows(Block.private(agent))
        self._writer, self.turn = ReplayWriter(self.rows), 0

    def play_round(self):
        none, spec = np.zeros(2, bool), self.agent.spec
        parts = {k: np.zeros((2, *p.shape), p.dtype) for k, p in spec.parts.items()}
        for _ in range(self.turns):
            active = np.array([True, self.turn == 0 or self.turn >= self.back])
            self._writer.write_observation(
                self.turn, parts, active, None, np.full(2, self.turn)
            )
            self._writer.write_action(self.turn, np.zeros(2, np.int64), 0.5, 0)
            self._writer.write_outcome(self.turn, np.ones(2, np.float32), none, none)
            self.turn += 1

    def reader(self):
        return reader_of(self.agent, self.rows, self.turns)


@pytest.mark.parametrize("name", ON_POLICY)
@pytest.mark.parametrize(
    ("turns", "back"), [(10, 25), (10, 50), (1, 3), (1, 60), (4, 26), (50, 51), (50, 99)]
)
def test_steps_longer_than_a_round_are_learned_from_in_the_round_they_close(
    name, turns, back
):
    life = Absent(name, turns, back)
    reader, closed, left_out = life.reader(), [], 0

    while life.turn <= back:
        life.play_round()
        reader.take_in(life.turn)
        closed += reader.closed_since(life.turn - turns).tolist()
        left_out += reader.left_behind(turns)

    assert closed.count(1) == 1  # the first step of the second world
    assert len(closed) == len(set(closed)) <= 2 * life.turn
    assert left_out == 0


@pytest.mark.parametrize("turns", [1, 7, 10, 50])
def test_a_step_that_stays_open_for_too_long_is_left_out_and_counted_once(turns):
    life = Absent("ppo", turns, back=500)
    reader, closed, counts, anew = life.reader(), [], [], []

    while life.turn <= 500:
        life.play_round()
        reader.take_in(life.turn)
        closed += reader.closed_since(life.turn - turns).tolist()
        counts.append(reader.left_behind(turns))
        started_anew = life.reader()
        started_anew.take_in(life.turn)
        anew.append(started_anew.left_behind(turns))

    assert 1 not in closed
    assert sum(counts) == 1
    assert counts == anew  # also by a learner that starts in that round
    window = max(2 * turns, 64)
    assert window - turns <= (counts.index(1) + 1) * turns <= window


def learned(folder):
    """Return the figures of all agents and rounds."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [figures for line in lines for figures in json.loads(line)["agents"].values()]


def run(folder, **settings):
    """Train gatherers that are out for long; return what is said meanwhile."""
    small = {"rounds": 60, "turns_per_round": 8, "worlds": 4, "workers": 0, "frames": 1}
    small |= {"network.width": 16, "algorithm": "ppo", "game.hits": 1, "ppo.passes": 1}
    entry, config = configure("gathering", settings=small | settings)
    folder.mkdir()
    session, said = Session(entry, config, folder), []
    session.say = said.append
    session.run(lambda one: None)
    return said


def test_a_run_says_once_that_steps_are_left_out_and_counts_them(tmp_path):
    said = run(tmp_path / "run", **{"game.out": 100, "game.turns": 400})

    (line,) = said
    assert line.startswith(
        "warning: transitions longer than 64 turns are not learned from (agents: "
    )
    assert line.endswith("; left_out in the metrics): raise turns_per_round.")
    assert sum(figures[LEFT_OUT] for figures in learned(tmp_path / "run")) > 1


def test_a_run_without_such_steps_says_nothing_of_them(tmp_path):
    said = run(tmp_path / "run", **{"game.out": 25, "game.turns": 400})

    assert said == []
    assert {figures[LEFT_OUT] for figures in learned(tmp_path / "run")} == {0}


def test_learners_from_a_replay_leave_nothing_out(tmp_path):
    run(tmp_path / "run", rounds=2, **{"algorithm": "dqn", "game.out": 100})

    assert all(LEFT_OUT not in figures for figures in learned(tmp_path / "run"))
