"""What recurrent agents carry from turn to turn: in rows, snapshots and players."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import rookery
from rookery.actor.weights import PublishedWeights
from rookery.algorithms.recurrent_dqn import RecurrentDqnPolicy
from rookery.algorithms.recurrent_ppo import RecurrentPpoPolicy
from rookery.config.resolve import resolve
from rookery.games.registry import find
from rookery.replay.sequences import Chain, Timeline
from rookery.runs.agent_files import export_agent
from rookery.training.training import Training
from tests.paths import GAME_FILES

RECALL = f"{GAME_FILES / 'recall.py'}:Recall"
SMALL = {
    "worlds": 3,
    "rounds": 6,
    "turns_per_round": 8,
    "updates_per_round": 2,
    "batch_size": 8,
    "frames": 2,
    "n_step": 2,
    "network": {"width": 16},
    "recurrent": {"width": 16, "sequence": 5, "burn_in": 1},
    "replay": {"capacity": 60, "warmup": 8},
    "epsilon": {"steps": 100},
    "workers": 0,
}
ORCHARD = {"name": "gathering", "turns": 12, "hits": 1, "out": 3, "agents": 2}
BOTH = pytest.mark.parametrize("algorithm", ["recurrent_dqn", "recurrent_ppo"])


@pytest.fixture
def training(algorithm):
    """A training in which agents are out at times, and act one after the other."""
    entry = find("gathering")
    game = ORCHARD | {"acting": "in_turn"}
    config = resolve(SMALL | {"algorithm": algorithm, "game": game}, entry.settings)
    made = Training.build(entry, config)
    yield made
    made.close()


class Watched:
    """Runs a training, and keeps what its agents act with, and carry on."""

    def __init__(self, training, monkeypatch):
        self.before, self.after = {}, {}
        """Agent and turn to (worlds, numbers)."""
        self._turns = Counter()
        for policy in (RecurrentDqnPolicy, RecurrentPpoPolicy):
            monkeypatch.setattr(policy, "act", self._watched(policy.act))
        for _ in training.rounds():
            pass

    def _watched(self, act):
        def watched(policy, moment):
            before = [each.copy() for each in moment.hidden]
            choice = act(policy, moment)
            for i, agent in enumerate(policy.agents):
                key = (agent.spec.id, self._turns[agent.spec.id])
                self.before[key], self.after[key] = before[i], choice.hidden[i].copy()
                self._turns[agent.spec.id] += 1
            return choice

        return watched


def train(training):
    for _ in training.rounds():
        pass


@pytest.mark.shows("B6")
@BOTH
def test_each_turn_is_acted_with_what_was_carried_on_from_the_one_before(
    training, monkeypatch
):
    watched = Watched(training, monkeypatch)

    starts = out = 0
    for agent in training.agents:
        rows = training.arena.rows(agent.id)
        for turn in range(max(1, 48 - rows.slots + 1), 48):
            slot, last = turn % rows.slots, (turn - 1) % rows.slots
            found = watched.before[agent.id, turn]
            np.testing.assert_array_equal(rows.columns["hidden"][slot], found)
            starting = rows.columns["age"][slot] == 0
            active = rows.columns["active"][last]
            carried = np.where(
                active[:, None],
                watched.after[agent.id, turn - 1],
                watched.before[agent.id, turn - 1],
            )
            np.testing.assert_array_equal(found[~starting], carried[~starting])
            assert not found[starting].any()
            starts, out = starts + starting.sum(), out + (~active & ~starting).sum()
    assert starts > 3
    assert out > 0


@pytest.mark.shows("B6")
@BOTH
def test_what_is_learned_from_is_what_was_acted_with(training, monkeypatch):
    found = []
    read, cut = Timeline.read, Chain.cut

    def watched_read(timeline, steps, *rest):
        sequences = read(timeline, steps, *rest)
        found.append((timeline._reader, steps, sequences.hidden))
        return sequences

    def watched_cut(reader, steps, *rest):
        chain = cut(reader, steps, *rest)
        there = chain.places[:, 0] >= 0
        found.append((reader, steps[chain.places[there, 0]], chain.hidden[there]))
        return chain

    monkeypatch.setattr(Timeline, "read", watched_read)
    monkeypatch.setattr(Chain, "cut", watched_cut)

    watched = Watched(training, monkeypatch)

    assert len(found) > 5
    for reader, steps, hidden in found:
        for turn, world, own in zip(*reader.opening(steps), hidden, strict=True):
            np.testing.assert_array_equal(own, watched.before[reader.agent, turn][world])


@pytest.mark.shows("B2")
@BOTH
def test_an_actor_plays_the_same_again_from_a_snapshot(training):
    train(training)
    snapshot = training.arena.snapshots().read(6)
    kept = {name: array.copy() for name, array in snapshot.items()}
    weights = PublishedWeights(training.arena, training.agents).exact(6)
    weights.arrays = {i: array.copy() for i, array in weights.arrays.items()}
    actor = training.executor.now.actor_process.actor
    rows = [training.arena.rows(agent.id) for agent in training.agents]

    found = []
    for _ in range(2):
        actor._restore(kept)
        for number in (7, 8):
            actor.play_round(number, weights)
        found.append([one.records.tobytes() for one in rows])

    assert kept["life/hidden/0"].any()
    assert found[0] == found[1]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of each kind, hardly trained."""
    folder = tmp_path_factory.mktemp("runs")
    return {
        name: rookery.train(RECALL, run=folder / name, **(SMALL | {"algorithm": name}))
        for name in ("recurrent_dqn", "recurrent_ppo")
    }


def hidden_of(agent):
    return agent._alone.memory["hidden"].copy()


@BOTH
def test_a_trained_agent_remembers_from_one_question_to_the_next(runs, algorithm):
    agent = runs[algorithm].players()["0"]
    sign, blank = {"sign": np.array([1, 0, 0])}, {"sign": np.zeros(3)}

    agent.act(sign)
    after_sign = hidden_of(agent)
    agent.act(blank)
    both = hidden_of(agent)
    agent.reset()
    forgotten = hidden_of(agent)
    agent.act(blank)
    blank_alone = hidden_of(agent)
    agent.act(blank)

    assert not forgotten.any()
    assert not np.array_equal(both, after_sign)
    assert not np.array_equal(both, blank_alone)


@BOTH
def test_players_of_one_agent_do_not_share_what_they_remember(runs, algorithm):
    one, other = (runs[algorithm].players()["0"] for _ in range(2))
    one.act({"sign": np.array([1, 0, 0])})
    other.act({"sign": np.array([0, 1, 0])})

    assert not np.array_equal(hidden_of(one), hidden_of(other))


@pytest.mark.parametrize("algorithm", ["recurrent_ppo"])
def test_frames_are_no_use_to_who_remembers_and_a_line_says_so(training):
    assert (
        "frames is 2, but a recurrent agent carries along what it saw: frames=1 is "
        "enough, and quicker."
    ) in training.warnings


@pytest.mark.shows("A1")
def test_nobody_notices_what_becomes_of_a_recurrent_agent(tmp_path):
    pair = {"algorithm": "recurrent_dqn", "agents": {"1": {"algorithm": "recurrent_ppo"}}}
    run = rookery.train(
        RECALL,
        run=tmp_path / "run",
        **(SMALL | pair | {"rounds": 1, "game": {"agents": 3}}),
    )

    assert rookery.independence(run).is_independent


def test_a_recurrent_agent_brings_its_replay_along_with_its_hidden_states(runs, tmp_path):
    run, file = runs["recurrent_dqn"], tmp_path / "agent"
    export_agent(run, "0", file, weights_only=False, with_replay=True)
    chosen = {
        "algorithm": "recurrent_dqn",
        "rounds": 1,
        "agents": {"1": {"from": str(file)}},
    }

    found = rookery.train(
        RECALL, run=tmp_path / "run", **(SMALL | chosen | {"replay": {"warmup": 30}})
    )

    made = found.metrics().set_index("agent")["updates"]
    assert made.to_dict() == {"0": 0, "1": 2}
