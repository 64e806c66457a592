"""Transitions longer than a round: on-policy learners learn from them, or warn."""

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


def on_policy_agent(name):
    return replace(agent_of(frames=1), algorithm=find_algorithm(name), learns=True)


class Absent:
    """An agent in two worlds; in the second one it is absent from turn 1 until `back`."""

    def __init__(self, name, turns, back):
        self.agent, self.turns, self.back = on_policy_agent(name), turns, back
        capacity = capacity_of(self.agent, turns, 2)
        slots = slots_needed(capacity, 2, turns, 1)
        layout = Rows.layout(self.agent.spec, 2, slots, self.agent.hidden)
        self.rows = Rows(Block.private(layout))
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
def test_transitions_longer_than_a_round_are_learned_from_when_they_close(
    name, turns, back
):
    absent = Absent(name, turns, back)
    reader, closed, left_out = absent.reader(), [], 0

    while absent.turn <= back:
        absent.play_round()
        reader.advance(absent.turn)
        closed += reader.closed_since(absent.turn - turns).tolist()
        left_out += reader.left_behind(turns)

    assert closed.count(1) == 1  # the first transition of the second world
    assert len(closed) == len(set(closed)) <= 2 * absent.turn
    assert left_out == 0


@pytest.mark.parametrize("turns", [1, 7, 10, 50])
def test_a_transition_that_stays_open_for_too_long_is_left_out_and_counted_once(turns):
    absent = Absent("ppo", turns, back=500)
    reader, closed, counts, restarted_counts = absent.reader(), [], [], []

    while absent.turn <= 500:
        absent.play_round()
        reader.advance(absent.turn)
        closed += reader.closed_since(absent.turn - turns).tolist()
        counts.append(reader.left_behind(turns))
        restarted = absent.reader()
        restarted.advance(absent.turn)
        restarted_counts.append(restarted.left_behind(turns))

    assert 1 not in closed
    assert sum(counts) == 1
    assert counts == restarted_counts  # also by a learner that starts in that round
    window = max(2 * turns, 64)
    assert window - turns <= (counts.index(1) + 1) * turns <= window


def learned(folder):
    """Return the metrics of all agents and rounds."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [metrics for line in lines for metrics in json.loads(line)["agents"].values()]


def run(folder, **settings):
    """Train gatherers that are absent for long; return all messages."""
    small = {"rounds": 60, "turns_per_round": 8, "worlds": 4, "workers": 0, "frames": 1}
    small |= {"network.width": 16, "algorithm": "ppo", "game.hits": 1, "ppo.passes": 1}
    entry, config = configure("gathering", settings=small | settings)
    folder.mkdir()
    session, messages = Session(entry, config, folder), []
    session.say = messages.append
    session.run(lambda completed: None)
    return messages


def test_a_run_warns_once_that_transitions_are_left_out_and_counts_them(tmp_path):
    messages = run(tmp_path / "run", **{"game.out": 100, "game.turns": 400})

    (line,) = messages
    assert line.startswith(
        "warning: transitions longer than 64 turns are not learned from (agents: "
    )
    assert line.endswith("; left_out in the metrics): raise turns_per_round.")
    assert sum(metrics[LEFT_OUT] for metrics in learned(tmp_path / "run")) > 1


def test_a_run_without_such_transitions_does_not_warn(tmp_path):
    messages = run(tmp_path / "run", **{"game.out": 25, "game.turns": 400})

    assert messages == []
    assert {metrics[LEFT_OUT] for metrics in learned(tmp_path / "run")} == {0}


def test_off_policy_learners_leave_nothing_out(tmp_path):
    run(tmp_path / "run", rounds=2, **{"algorithm": "dqn", "game.out": 100})

    assert all(LEFT_OUT not in metrics for metrics in learned(tmp_path / "run"))
