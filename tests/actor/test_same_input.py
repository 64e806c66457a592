"""Agents act on and learn from the same inputs, bit for bit, in real trainings."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from rookery.actor.policies import PublishedWeights
from rookery.algorithms.iqn import IqnPolicy
from rookery.algorithms.kernels.sparse import Nonzero
from rookery.algorithms.nets.layers import Features
from rookery.algorithms.ppo import PpoPolicy
from rookery.config.resolve import resolve
from rookery.games.registry import find
from rookery.learner.learner import reader_of
from rookery.replay.buffer import ReplayReader
from rookery.replay.drawing import SLOT, WORLD, RowObservations
from rookery.training.training import Training
from tests.actor.rewind import rewind

SMALL = {
    "worlds": 3,
    "rounds": 6,
    "turns_per_round": 7,
    "updates_per_round": 2,
    "batch_size": 8,
    "frames": 3,
    "network": {"width": 16, "quantiles": 2},
    "iqn": {"acting_quantiles": 2},
    "replay": {"capacity": 60, "warmup": 8},
    "epsilon": {"steps": 100},
}
HUNT = {"name": "treasurehunt", "height": 6, "width": 7, "turns": 9, "spawn": 0.1}
ORCHARD = {"name": "gathering", "turns": 12, "hits": 1, "out": 3, "agents": 2}
GAMES = {
    "treasurehunt": HUNT,
    "treasurehunt in turn": HUNT | {"acting": "in_turn"},
    "gathering in turn": ORCHARD | {"acting": "in_turn"},
}
games = pytest.mark.parametrize("game", GAMES.values(), ids=GAMES.keys())


@pytest.fixture
def trained():
    """Build a small training: trained(game, frames=2, …)."""
    made = []

    def build(game, **settings):
        entry = find(game["name"])
        config = resolve(SMALL | settings | {"game": game}, entry.settings)
        made.append(Training.build(entry, config))
        return made[-1]

    yield build
    for training in made:
        training.close()


class Watched:
    """Runs a training, and keeps the inputs that its agents act on and learn from."""

    def __init__(self, training, monkeypatch):
        self.acted_on = {}
        """Agent and turn to part name to (worlds, frames, …)."""
        self.drawn = []
        """Agent, features, turns, worlds, and inputs (rows, padded)."""
        self._turns = Counter()
        self._agents = {}
        for policy in (IqnPolicy, PpoPolicy):
            monkeypatch.setattr(policy, "act", self._watched_act(policy.act))
        advance = self._watched_advance(ReplayReader.advance)
        monkeypatch.setattr(ReplayReader, "advance", advance)
        monkeypatch.setattr(Features, "draw", self._watched_draw(Features.draw))
        draw_nonzero = self._watched_draw_nonzero(Features.draw_nonzero)
        monkeypatch.setattr(Features, "draw_nonzero", draw_nonzero)
        train(training)

    def _watched_act(self, act):
        def watched(policy, policy_input):
            for agent, parts in zip(policy.agents, policy_input.observations, strict=True):
                copies = {name: part.copy() for name, part in parts.items()}
                self.acted_on[agent.spec.id, self._turns[agent.spec.id]] = copies
                self._turns[agent.spec.id] += 1
            return act(policy, policy_input)

        return watched

    def _watched_advance(self, advance):
        def watched(reader, *rest):
            self._agents[id(reader.rows)] = reader.agent
            return advance(reader, *rest)

        return watched

    def _watched_draw(self, draw):
        def watched(features, inputs, rows, addresses):
            draw(features, inputs, rows, addresses)
            slots, worlds = addresses[:, SLOT].copy(), addresses[:, WORLD].copy()
            if id(rows) not in self._agents:  # an agent acts
                stacked = RowObservations(rows, slots, worlds, features.frames)
                expected = np.zeros_like(inputs)
                features.fill(expected, stacked)
                assert inputs.tobytes() == expected.tobytes()
                return
            self._keep(features, rows, addresses, inputs.copy())

        return watched

    def _watched_draw_nonzero(self, draw):
        def watched(features, nonzero, rows, addresses):
            draw(features, nonzero, rows, addresses)
            inputs = Nonzero(*(array[None] for array in nonzero)).dense()[0].numpy()
            self._keep(features, rows, addresses, inputs)

        return watched

    def _keep(self, features, rows, addresses, inputs):
        turns = rows.columns["sequence"][addresses[:, SLOT]] - 1
        agent, worlds = self._agents[id(rows)], addresses[:, WORLD].copy()
        self.drawn.append((agent, features, turns, worlds, inputs))


def train(training):
    for _ in training.rounds():
        pass


@pytest.mark.shows("B6")
@games
@pytest.mark.parametrize("algorithm", ["iqn", "ppo"])
def test_what_is_learned_from_is_what_was_acted_on(trained, monkeypatch, game, algorithm):
    watched = Watched(trained(game, algorithm=algorithm), monkeypatch)

    assert len(watched.drawn) > 10
    for agent, features, turns, worlds, inputs in watched.drawn:
        acted_with = np.zeros_like(inputs)
        for i, (turn, world) in enumerate(
            zip(turns.tolist(), worlds.tolist(), strict=True)
        ):
            acted_on = watched.acted_on[agent, turn].items()
            parts = {name: part[world : world + 1] for name, part in acted_on}
            features.fill(acted_with[i : i + 1], parts)
        assert inputs.tobytes() == acted_with.tobytes()


@pytest.mark.shows("B6", "B4")
@games
def test_the_last_window_is_what_was_acted_on(trained, monkeypatch, game):
    training = trained(game, rounds=12)

    watched = Watched(training, monkeypatch)

    turns = 12 * SMALL["turns_per_round"]
    for agent in training.agents:
        reader = reader_of(
            agent, training.arena.rows(agent.id), training.config.turns_per_round
        )
        assert reader.rows.slots < turns / 2  # the ring has gone around
        for turn in range(turns - 20, turns):
            stacked = reader.observations(np.full(3, turn), np.arange(3))
            for name, part in watched.acted_on[agent.id, turn].items():
                assert stacked[name].tobytes() == part.tobytes()


@pytest.mark.shows("B9")
@pytest.mark.parametrize("frames", [1, 2, 5])
@pytest.mark.parametrize("algorithm", ["iqn", "ppo"])
def test_one_setting_says_how_many_frames_are_stacked(
    trained, monkeypatch, frames, algorithm
):
    training = trained(HUNT, rounds=3, frames=frames, algorithm=algorithm)

    watched = Watched(training, monkeypatch)

    assert {parts["view"].shape[1] for parts in watched.acted_on.values()} == {frames}
    assert {features.frames for _, features, *_ in watched.drawn} == {frames}


@pytest.mark.shows("B9")
def test_each_agent_has_its_own_number_of_frames(trained, monkeypatch):
    training = trained(HUNT, rounds=3, frames=2, agents={"1": {"frames": 4}})

    watched = Watched(training, monkeypatch)

    acted = [
        (agent, parts["view"].shape[1]) for (agent, _), parts in watched.acted_on.items()
    ]
    learned = [(agent, features.frames) for agent, features, *_ in watched.drawn]
    assert set(acted) == set(learned)
    assert set(acted) == {("0", 2), ("1", 4), ("2", 2)}


@pytest.mark.shows("B7")
@games
def test_a_new_episode_or_round_clears_nothing_in_the_window(trained, game):
    training = trained(game)
    kept = {}

    for completed in training.rounds():
        boundary = completed.number * SMALL["turns_per_round"]
        for agent in training.agents:
            rows = training.arena.rows(agent.id)
            for turn in range(boundary - SMALL["turns_per_round"], boundary):
                kept[agent.id, turn] = rows.records[turn % rows.slots].tobytes()
            for turn in range(max(0, boundary - 20), boundary):
                assert rows.records[turn % rows.slots].tobytes() == kept[agent.id, turn]
    assert training.executor.now.actor_processes[0].actor.state.episodes.number.min() >= 3


@pytest.mark.shows("B7")
def test_transitions_of_earlier_episodes_and_rounds_stay_usable(trained):
    training = trained(HUNT)  # a window of 20 turns, episodes of 9, rounds of 7

    train(training)

    agent = training.agents[0]
    reader = reader_of(
        agent, training.arena.rows(agent.id), training.config.turns_per_round
    )
    reader.advance(42)
    turns, worlds = reader.opening(reader.usable)
    assert turns.min() == 22
    assert {turn // 7 for turn in turns.tolist()} == {3, 4, 5}
    assert len(set(worlds.tolist())) == 3


def test_a_real_actor_repeats_itself_from_a_snapshot(trained):
    game = HUNT | {"acting": "in_turn"}
    training = trained(game, rounds=2, agents={"2": {"player": "forager"}})
    train(training)
    kept = {n: a.copy() for n, a in training.arena.snapshots().read(2).items()}
    weights = PublishedWeights(training.arena, training.agents).exact(2)
    weights.arrays = {i: array.copy() for i, array in weights.arrays.items()}
    actor_process = training.executor.now.actor_processes[0]
    actor = actor_process.actor
    rows = [training.arena.rows(agent.id) for agent in training.agents]

    records = []
    for _ in range(2):
        rewind(training.arena, actor, 2, kept)
        for number in (3, 4):
            actor.play_round(number, weights)
            actor_process.complete(number)
        records.append([each.records.tobytes() for each in rows])
        snapshots = training.arena.snapshots()
        records[-1].append(snapshots.read(4)["life/hashes"].tobytes())

    assert records[0] == records[1]


def test_ppo_draws_its_actions_whatever_epsilon_says(trained):
    """Otherwise the stored probability is not that of the action taken."""
    plain, other = (
        trained(HUNT, algorithm="ppo"),
        trained(HUNT, algorithm="ppo", epsilon={"start": 0.0, "end": 0.0}),
    )

    train(plain)
    train(other)

    for agent in plain.agents:
        theirs = other.arena.rows(agent.id).columns["action"]
        np.testing.assert_array_equal(plain.arena.rows(agent.id).columns["action"], theirs)
