"""Hidden states of recurrent agents: in rows, snapshots and players."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import rookery
from rookery.actor.policies import PublishedWeights
from rookery.algorithms.recurrent_dqn import RecurrentDqnPolicy
from rookery.algorithms.recurrent_ppo import RecurrentPpoPolicy
from rookery.config.resolve import resolve
from rookery.games.registry import find
from rookery.replay.sequences import Chain, Timeline
from rookery.runs.agent_files import export_agent
from rookery.training.training import Training
from tests.actor.rewind import rewind
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
    """A training in which agents are absent at times, and act one after the other."""
    entry = find("gathering")
    game = ORCHARD | {"acting": "in_turn"}
    config = resolve(SMALL | {"algorithm": algorithm, "game": game}, entry.settings)
    made = Training.build(entry, config)
    yield made
    made.close()


class Watched:
    """Runs a training, and keeps the hidden states before and after every action."""

    def __init__(self, training, monkeypatch):
        self.before, self.after = {}, {}
        """Agent and turn to (worlds, numbers)."""
        self._turns = Counter()
        for policy in (RecurrentDqnPolicy, RecurrentPpoPolicy):
            monkeypatch.setattr(policy, "act", self._watched(policy.act))
        for _ in training.rounds():
            pass

    def _watched(self, act):
        def watched(policy, policy_input):
            before = [hidden.copy() for hidden in policy_input.hidden]
            output = act(policy, policy_input)
            for i, agent in enumerate(policy.agents):
                key = (agent.spec.id, self._turns[agent.spec.id])
                self.before[key], self.after[key] = before[i], output.hidden[i].copy()
                self._turns[agent.spec.id] += 1
            return output

        return watched


def train(training):
    for _ in training.rounds():
        pass


@pytest.mark.shows("B6")
@BOTH
def test_an_agent_acts_with_the_hidden_state_of_the_turn_before(training, monkeypatch):
    watched = Watched(training, monkeypatch)

    starts = absences = 0
    for agent in training.agents:
        rows = training.arena.rows(agent.id)
        for turn in range(max(1, 48 - rows.slots + 1), 48):
            slot, last = turn % rows.slots, (turn - 1) % rows.slots
            hidden = watched.before[agent.id, turn]
            np.testing.assert_array_equal(rows.columns["hidden"][slot], hidden)
            starting = rows.columns["age"][slot] == 0
            active = rows.columns["active"][last]
            carried = np.where(
                active[:, None],
                watched.after[agent.id, turn - 1],
                watched.before[agent.id, turn - 1],
            )
            np.testing.assert_array_equal(hidden[~starting], carried[~starting])
            assert not hidden[starting].any()
            starts += starting.sum()
            absences += (~active & ~starting).sum()
    assert starts > 3
    assert absences > 0


@pytest.mark.shows("B6")
@BOTH
def test_learning_starts_from_the_hidden_states_that_were_acted_with(training, monkeypatch):
    learned_from = []
    read, cut = Timeline.read, Chain.cut

    def watched_read(timeline, steps, *rest):
        sequences = read(timeline, steps, *rest)
        learned_from.append((timeline._reader, steps, sequences.hidden))
        return sequences

    def watched_cut(reader, steps, *rest):
        chain = cut(reader, steps, *rest)
        is_used = chain.indices[:, 0] >= 0
        learned_from.append(
            (reader, steps[chain.indices[is_used, 0]], chain.hidden[is_used])
        )
        return chain

    monkeypatch.setattr(Timeline, "read", watched_read)
    monkeypatch.setattr(Chain, "cut", watched_cut)

    watched = Watched(training, monkeypatch)

    assert len(learned_from) > 5
    for reader, steps, hidden in learned_from:
        for turn, world, own in zip(*reader.opening(steps), hidden, strict=True):
            np.testing.assert_array_equal(own, watched.before[reader.agent, turn][world])


@pytest.mark.shows("B2")
@BOTH
def test_an_actor_repeats_itself_from_a_snapshot(training):
    train(training)
    snapshot = training.arena.snapshots().read(6)
    kept = {name: array.copy() for name, array in snapshot.items()}
    weights = PublishedWeights(training.arena, training.agents).exact(6)
    weights.arrays = {i: array.copy() for i, array in weights.arrays.items()}
    actor_process = training.executor.now.actor_processes[0]
    actor = actor_process.actor
    rows = [training.arena.rows(agent.id) for agent in training.agents]

    records = []
    for _ in range(2):
        rewind(training.arena, actor, 6, kept)
        for number in (7, 8):
            actor.play_round(number, weights)
            actor_process.complete(number)
        records.append([each.records.tobytes() for each in rows])

    assert kept["life/hidden/0"].any()
    assert records[0] == records[1]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of each kind, hardly trained."""
    folder = tmp_path_factory.mktemp("runs")
    return {
        name: rookery.train(RECALL, run=folder / name, **(SMALL | {"algorithm": name}))
        for name in ("recurrent_dqn", "recurrent_ppo")
    }


def hidden_of(agent):
    return agent._player.memory["hidden"].copy()


@BOTH
def test_a_trained_agent_remembers_from_one_observation_to_the_next(runs, algorithm):
    agent = runs[algorithm].players()["0"]
    sign, blank = {"sign": np.array([1, 0, 0])}, {"sign": np.array([0, 0, 0])}

    agent.act(sign)
    after_sign = hidden_of(agent)
    agent.act(blank)
    after_both = hidden_of(agent)
    agent.reset()
    forgotten = hidden_of(agent)
    agent.act(blank)
    after_blank = hidden_of(agent)
    agent.act(blank)

    assert not forgotten.any()
    assert not np.array_equal(after_both, after_sign)
    assert not np.array_equal(after_both, after_blank)


@BOTH
def test_players_of_one_agent_do_not_share_hidden_states(runs, algorithm):
    first, second = (runs[algorithm].players()["0"] for _ in range(2))
    first.act({"sign": np.array([1, 0, 0])})
    second.act({"sign": np.array([0, 1, 0])})

    assert not np.array_equal(hidden_of(first), hidden_of(second))


@pytest.mark.parametrize("algorithm", ["recurrent_ppo"])
def test_stacked_frames_of_a_recurrent_agent_are_warned_about(training):
    assert (
        "frames is 2, but a recurrent agent remembers earlier observations: frames=1 is "
        "enough, and faster."
    ) in training.warnings


@pytest.mark.shows("A1")
def test_recurrent_agents_are_independent(tmp_path):
    pair = {"algorithm": "recurrent_dqn", "agents": {"1": {"algorithm": "recurrent_ppo"}}}
    run = rookery.train(
        RECALL,
        run=tmp_path / "run",
        **(SMALL | pair | {"rounds": 1, "game": {"agents": 3}}),
    )

    assert rookery.independence(run).is_independent


def test_an_exported_replay_includes_hidden_states(runs, tmp_path):
    run, file = runs["recurrent_dqn"], tmp_path / "agent"
    export_agent(run, "0", file, weights_only=False, with_replay=True)
    settings = {
        "algorithm": "recurrent_dqn",
        "rounds": 1,
        "agents": {"1": {"from": str(file)}},
    }

    started = rookery.train(
        RECALL, run=tmp_path / "run", **(SMALL | settings | {"replay": {"warmup": 30}})
    )

    updates = started.metrics().set_index("agent")["updates"]
    assert updates.to_dict() == {"0": 0, "1": 2}
