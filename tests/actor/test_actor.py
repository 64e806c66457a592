"""The actor: what it writes of every turn, when it commits, and that it repeats itself."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace

import numpy as np
import pytest

from rookery.actor.actor import Actor
from rookery.actor.policies import PolicyRunner
from rookery.actor.state import ActorState, snapshot_of
from rookery.actor.weights import Weights
from rookery.algorithms.agents import groups_of
from rookery.algorithms.base import Agent, Algorithm, Policy, PolicyOutput
from rookery.algorithms.common.schedules import epsilon
from rookery.algorithms.iqn import IqnLearner
from rookery.config.agent import AgentSettings, EpsilonConfig
from rookery.config.base import Settings
from rookery.errors import GameError
from rookery.games.base import Game, Observations, Outcome
from rookery.games.guard import GuardedGame
from rookery.games.players import Player
from rookery.learner.learner import reader_of
from rookery.protocol.arena import COMMIT, SNAPSHOT, AgentMemory, Arena
from rookery.replay.buffer import DamagedRow
from rookery.rng import Purpose, Stream
from rookery.specs import AgentSpec, Part

WORLDS, TURNS = 3, 4  # worlds, and turns per round
SPEC = AgentSpec(
    "ant", "insect", {"spot": Part((3,), np.dtype(np.int32))}, ("x", "y", "z"), masked=True
)
BEE = AgentSpec("bee", "insect", SPEC.parts, SPEC.actions, masked=True)


class Meadow(Game):
    """An ant that always acts, a bee that acts every other turn and ends a turn earlier.

    World w plays episodes of 3 + w turns. What an agent sees holds the sum of what both
    have done, so whoever acts second in a turn sees what the first has done.
    """

    counts = ("visits",)

    def __init__(self, worlds=WORLDS, in_turn=False, bonus=None):
        super().__init__(Settings(), worlds, 0)
        self.agents = (SPEC, BEE)
        self.in_turn, self.bonus = in_turn, bonus
        self.length = 3 + np.arange(worlds)
        self.clock = np.zeros(worlds, np.int64)
        self.done = np.zeros((worlds, 2), np.int64)
        self.turn = 0
        self.rounds, self.shown, self.taken, self.outcomes = [], {}, {}, []

    @property
    def over(self):
        """(worlds, agents): whose last turn lies behind it."""
        return self.clock[:, None] >= np.stack([self.length, self.length - 1], axis=1)

    def begin_round(self, number):
        self.rounds.append(number)

    def begin_turn(self):
        if not self.in_turn:
            return ((0, 1),)
        return ((0,), (1,)) if self.turn % 2 else ((1,), (0,))

    def observe(self, agents):
        active = np.stack([np.ones(self.worlds, bool), self.clock % 2 == 0], axis=1)
        active &= ~self.over
        legal = np.ones((self.worlds, 3), bool)
        legal[:, 1] = self.clock % 3 > 0
        parts = []
        for agent in agents:
            columns = [self.clock, self.done.sum(axis=1), np.full(self.worlds, 7 + agent)]
            parts.append({"spot": np.stack(columns, axis=1).astype(np.int32)})
            self.shown[self.turn, agent] = (parts[-1]["spot"], active[:, agent], legal)
        return Observations(
            parts, [active[:, i] for i in agents], [legal.copy() for _ in agents]
        )

    def act(self, agents, actions):
        for place, agent in enumerate(agents):
            self.taken[self.turn, agent] = actions[:, place].copy()
            self.done[:, agent] += actions[:, place] + 1

    def end_turn(self):
        over = self.over
        rewards = (self.clock[:, None] + np.array([1.0, 10.0])).astype(np.float32)
        if self.bonus is not None and self.bonus[0] == self.turn:
            rewards[self.bonus[1:]] += 0.5
        rewards[over] = 0
        ends = (self.clock + 1)[:, None] >= np.stack([self.length, self.length - 1], axis=1)
        ends &= ~over
        starting = over.all(axis=1)
        self.clock += 1
        self.clock[starting] = 0
        self.done[starting] = 0
        self.turn += 1
        outcome = Outcome(
            rewards,
            ends & [False, True],
            ends & [True, False],
            counts={"visits": (~over).astype(np.float32)},
        )
        self.outcomes.append(outcome)
        return outcome

    def snapshot(self):
        turns = np.full(self.worlds, self.turn)
        return {"clock": self.clock.copy(), "done": self.done.copy(), "turns": turns}

    def restore(self, arrays):
        self.clock, self.done = arrays["clock"].copy(), arrays["done"].copy()
        self.turn = int(arrays["turns"][0])


class Scout(Policy):
    """Acts by its draws and its weights, and keeps every moment."""

    moments: list
    weights_seen: list

    def begin_round(self, weights, number):
        self.weights = np.stack(weights)
        self.weights_seen.append((number, self.weights.copy()))

    def act(self, moment):
        numbers = tuple(agent.number for agent in self.agents)
        self.moments.append(SimpleNamespace(agents=numbers, **vars(moment)))
        seen = np.stack([parts["spot"].sum(axis=(1, 2)) for parts in moment.observations])
        wanted = (moment.draws[..., 0] * 1000 + seen + self.weights.sum()).astype(
            np.int64
        ) % 3
        legal = np.stack(moment.legal)
        allowed = np.take_along_axis(legal, wanted[..., None], axis=2)[..., 0]
        return PolicyOutput(
            np.where(allowed, wanted, 0),
            moment.draws[..., 1].astype(np.float32),
            np.ones(wanted.shape),
            np.zeros(wanted.shape),
        )


class Counting(Player):
    """Remembers how many turns it has played in an episode, and acts by it."""

    def __init__(self, *about):
        super().__init__(*about)
        self.memory["turns"] = np.zeros(self.worlds, np.int64)
        self.kept = []

    def act(self, observation, turn):
        self.memory["turns"] += 1
        self.kept.append(self.memory["turns"].copy())
        return np.where(observation.active, 2 * (self.memory["turns"] % 4 > 1), 0)


class ActorProcess:
    """An actor with everything around it, and no learner."""

    def __init__(self, scripted=(), frames=2, slots=40, game=None, **about):
        self.game = game or Meadow(**about)
        guarded = GuardedGame(self.game, "meadow")
        self.scout = type("Scout", (Scout,), {"moments": [], "weights_seen": []})
        chosen = AgentSettings(frames=frames, epsilon=EpsilonConfig(steps=20))
        algorithm = Algorithm("scout", self.scout, IqnLearner)
        self.agents = [
            Agent(i, spec, chosen, *role)
            for i, spec in enumerate(self.game.agents)
            for role in [
                (None, "counting", False) if i in scripted else (algorithm, None, True)
            ]
        ]
        self.players = {
            i: Counting(
                self.game.agents[i], Settings(), WORLDS, Stream(0, Purpose.PLAYER, i)
            )
            for i in scripted
        }
        weights = {"weights": ((2,), np.float32)}
        memory = [AgentMemory(spec, slots, weights) for spec in self.game.agents]
        first = snapshot_of(guarded, ActorState(self.agents, guarded), self.players)
        shapes = {name: (array.shape, array.dtype) for name, array in first.items()}
        self.arena = Arena.planned(WORLDS, memory, shapes)
        self.arena.allocate()
        policies = PolicyRunner(groups_of(self.agents), 0, WORLDS)
        self.actor = Actor(guarded, self.agents, self.players, self.arena, policies, TURNS)

    def replace_actor(self, game):
        """Begin with a new actor and game where another has left its rows."""
        policies = PolicyRunner(groups_of(self.agents), 0, WORLDS)
        guarded = GuardedGame(game, "meadow")
        self.game = game
        self.actor = Actor(guarded, self.agents, self.players, self.arena, policies, TURNS)

    def play(self, *rounds):
        """Play rounds; agent i plays round k with weights 10 * k + i."""
        return [
            self.actor.play_round(
                number,
                Weights(
                    {i: np.full(2, 10 * (number - 1) + i, np.float32) for i in (0, 1)},
                    {i: number - 1 for i in (0, 1) if self.agents[i].learns},
                ),
            )
            for number in rounds
        ]

    def column(self, agent, name):
        """Return a column of all rows written so far, (turns, …)."""
        rows = self.arena.rows(self.game.agents[agent].id)
        return rows.columns[name][: self.actor.state.turn]

    def rows_until(self, agent, turns):
        """Return all bytes of an agent's first rows."""
        return self.arena.rows(self.game.agents[agent].id).records[:turns].tobytes()

    def rows(self):
        """Return all bytes of both agents' rows."""
        return [self.arena.rows(spec.id).records.tobytes() for spec in self.game.agents]

    def close(self):
        self.arena.close()


@pytest.fixture
def staged():
    """Build stages: staged(in_turn=True, …)."""
    stages = []

    def build(**about):
        stages.append(ActorProcess(**about))
        return stages[-1]

    yield build
    for stage in stages:
        stage.close()


both_ways = pytest.mark.parametrize("in_turn", [False, True], ids=["at once", "in turn"])
each = pytest.mark.parametrize("agent", [0, 1], ids=["ant", "bee"])


# What is in a row.


@both_ways
@each
def test_rows_hold_what_the_agent_was_shown(staged, in_turn, agent):
    stage = staged(in_turn=in_turn)

    stage.play(1, 2, 3)

    for turn in range(12):
        spot, active, legal = stage.game.shown[turn, agent]
        np.testing.assert_array_equal(stage.column(agent, "part.spot")[turn], spot)
        np.testing.assert_array_equal(stage.column(agent, "active")[turn], active)
        np.testing.assert_array_equal(stage.column(agent, "legal")[turn], legal)


@both_ways
@each
def test_rows_hold_what_the_agent_did(staged, in_turn, agent):
    stage = staged(in_turn=in_turn)

    stage.play(1, 2, 3)

    taken = np.stack([stage.game.taken[turn, agent] for turn in range(12)])
    np.testing.assert_array_equal(stage.column(agent, "action"), taken)
    assert len(set(taken.ravel().tolist())) == 3  # it did not do the same all the time


@each
def test_rows_hold_what_the_turn_brought(staged, agent):
    stage = staged()

    stage.play(1, 2, 3)

    for turn, outcome in enumerate(stage.game.outcomes):
        for name, found in (
            ("reward", outcome.rewards),
            ("terminated", outcome.terminated),
            ("truncated", outcome.truncated),
        ):
            np.testing.assert_array_equal(stage.column(agent, name)[turn], found[:, agent])


@each
def test_the_age_of_a_row_is_its_place_in_the_episode_of_its_world(staged, agent):
    stage = staged()

    stage.play(1, 2, 3)

    wanted = [[turn % (3 + world + 1) for world in range(WORLDS)] for turn in range(12)]
    assert stage.column(agent, "age").tolist() == wanted  # 3 + w turns, and a closing row


def test_rows_hold_the_version_that_acted(staged):
    stage = staged()

    stage.play(1, 2, 3)

    assert stage.column(0, "version").tolist() == [0] * 4 + [1] * 4 + [2] * 4


@both_ways
@each
def test_rows_hold_the_probability_of_what_was_done(staged, in_turn, agent):
    stage = staged(in_turn=in_turn)

    stage.play(1, 2)

    mine = [
        moment.draws[moment.agents.index(agent), :, 1]
        for moment in stage.scout.moments
        if agent in moment.agents
    ]
    wanted = np.array(mine, np.float32)
    np.testing.assert_array_equal(stage.column(agent, "probability"), wanted)


def test_a_scripted_player_is_sure_of_what_it_does(staged):
    stage = staged(scripted=[1])

    stage.play(1)

    assert (stage.column(1, "probability") == 1).all()
    done = 2 * (np.stack(stage.players[1].kept) % 4 > 1) * stage.column(1, "active")
    np.testing.assert_array_equal(stage.column(1, "action"), done)


@both_ways
def test_who_is_not_active_does_nothing(staged, in_turn):
    stage = staged(in_turn=in_turn)

    stage.play(1, 2, 3)

    for agent in (0, 1):
        active, done = stage.column(agent, "active"), stage.column(agent, "action")
        assert not active.all()
        assert not done[~active].any()


def test_in_turn_the_second_sees_what_the_first_did(staged):
    stage = staged(in_turn=True)

    stage.play(1)

    ant, bee = (stage.column(agent, "part.spot")[..., 1] for agent in (0, 1))
    ant_did, bee_did = (stage.column(agent, "action") + 1 for agent in (0, 1))
    np.testing.assert_array_equal(ant[0], bee[0] + bee_did[0])  # the bee is first here
    np.testing.assert_array_equal(bee[1], ant[1] + ant_did[1])


def test_every_row_is_whole(staged):
    stage = staged()

    stage.play(1, 2)

    for spec in stage.game.agents:
        rows = stage.arena.rows(spec.id)
        assert all(rows.is_whole(turn) for turn in range(8))
        assert not rows.is_whole(8)


# What the policy gets.


@pytest.mark.shows("B6")
@both_ways
@each
def test_what_an_agent_acts_on_is_stacked_from_its_rows(staged, in_turn, agent):
    stage = staged(in_turn=in_turn, frames=3)

    stage.play(1, 2, 3)

    agent = stage.agents[agent]
    reader = reader_of(agent, stage.arena.rows(agent.id), TURNS)
    acted_on = [
        moment.observations[moment.agents.index(agent)]
        for moment in stage.scout.moments
        if agent in moment.agents
    ]
    for turn, seen in enumerate(acted_on):
        found = reader.observations(np.full(WORLDS, turn), np.arange(WORLDS))
        np.testing.assert_array_equal(found["spot"], seen["spot"])
        assert seen["spot"].shape == (WORLDS, 3, 3)


def test_agents_that_act_at_once_do_so_in_one_pass(staged):
    stage = staged()

    stage.play(1)

    assert [moment.agents for moment in stage.scout.moments] == [(0, 1)] * TURNS


def test_a_round_is_played_with_the_weights_given_for_it(staged):
    stage = staged()

    stage.play(1, 2)

    numbers = [number for number, _ in stage.scout.weights_seen]
    weights = [found[:, 0].tolist() for _, found in stage.scout.weights_seen]
    assert numbers == [1, 2]
    assert weights == [[0, 1], [10, 11]]


def test_the_game_is_told_of_every_round(staged):
    stage = staged()

    stage.play(1, 2)

    assert stage.game.rounds == [1, 2]


@both_ways
def test_draws_belong_to_agent_world_and_turn(staged, in_turn):
    once, again = staged(in_turn=in_turn), staged(in_turn=not in_turn)

    once.play(1, 2)
    again.play(1, 2)

    found = {agent: draws_of(once, agent) for agent in (0, 1)}
    for agent in (0, 1):
        np.testing.assert_array_equal(found[agent], draws_of(again, agent))
    every = np.concatenate([found[0].ravel(), found[1].ravel()])
    assert len(np.unique(every)) == every.size


def draws_of(stage, agent):
    return np.stack(
        [
            moment.draws[moment.agents.index(agent)]
            for moment in stage.scout.moments
            if agent in moment.agents
        ]
    )


# Steps and exploration.


@both_ways
def test_steps_count_the_turns_in_which_an_agent_was_active(staged, in_turn):
    stage = staged(in_turn=in_turn)

    stage.play(1, 2, 3)

    active = [stage.column(agent, "active").sum() for agent in (0, 1)]
    assert stage.actor.state.steps.tolist() == active
    assert active[0] > active[1] > 0


def test_steps_are_reported(staged):
    stage = staged()

    *_, played = stage.play(1, 2)

    reported = [played.metrics[spec.id]["steps"] for spec in stage.game.agents]
    assert reported == stage.actor.state.steps.tolist()


@pytest.mark.shows("C3")
@both_ways
@each
def test_exploration_is_a_function_of_the_agents_own_steps_so_far(staged, in_turn, agent):
    stage = staged(in_turn=in_turn)

    stage.play(1, 2, 3)

    chances = [
        moment.exploration[moment.agents.index(agent)]
        for moment in stage.scout.moments
        if agent in moment.agents
    ]
    per_turn = stage.column(agent, "active").sum(axis=1)
    so_far = np.cumsum(per_turn) - per_turn
    chosen = stage.agents[agent].settings.epsilon
    assert chances == [epsilon(chosen, steps) for steps in so_far.tolist()]
    assert len(set(chances)) > 3


@pytest.mark.shows("C3")
def test_exploration_ends_where_the_settings_say():
    chosen = EpsilonConfig(start=0.8, end=0.1, steps=70)

    chances = [epsilon(chosen, steps) for steps in (0, 35, 70, 1000)]

    assert chances == pytest.approx([0.8, 0.45, 0.1, 0.1])


# Committing.


@both_ways
def test_a_turn_is_committed_after_all_rows_of_all_agents(staged, in_turn):
    stage = staged(in_turn=in_turn)
    committed = watch_commits(stage)

    stage.play(1, 2)

    assert [value for value, _ in committed] == list(range(1, 9))
    assert all(whole for _, whole in committed)


def watch_commits(stage):
    """Note each commit, and whether the rows of that turn were all whole by then."""
    counters, committed = stage.arena.counters, []
    store = counters.store

    def noted(name, value):
        if name == COMMIT:
            rows = [stage.arena.rows(spec.id) for spec in stage.game.agents]
            committed.append((value, all(one.is_whole(value - 1) for one in rows)))
        store(name, value)

    counters.store = noted
    return committed


def test_nothing_is_committed_while_a_turn_is_played(staged, monkeypatch):
    stage = staged()
    seen = []
    act = stage.game.act

    def looking(agents, actions):
        seen.append(stage.arena.counters.load(COMMIT))
        act(agents, actions)

    monkeypatch.setattr(stage.game, "act", looking)
    stage.play(1)

    assert seen == [0, 1, 2, 3]
    assert stage.arena.counters.load(COMMIT) == 4


def test_a_game_that_breaks_half_way_commits_nothing_of_that_turn(staged, monkeypatch):
    stage = staged()
    stage.play(1)

    def fall_over():
        raise RuntimeError("the meadow is flooded")

    monkeypatch.setattr(stage.game, "end_turn", fall_over)
    with pytest.raises(GameError, match="RuntimeError: the meadow is flooded"):
        stage.play(2)

    assert stage.arena.counters.load(COMMIT) == 4
    assert not stage.arena.rows("ant").is_whole(4)


def test_a_snapshot_is_left_at_every_border(staged):
    stage = staged()

    stage.play(1, 2)

    assert stage.arena.counters.load(SNAPSHOT) == 3  # border 2, plus one
    taken = stage.arena.snapshots().read(2)
    assert taken["life/turn"].tolist() == [8]
    np.testing.assert_array_equal(taken["game/clock"], stage.game.clock)
    np.testing.assert_array_equal(taken["life/steps"], stage.actor.state.steps)


# Going back.


@both_ways
@pytest.mark.parametrize("scripted", [[], [1]], ids=["learning", "with a player"])
def test_rounds_played_again_from_a_snapshot_give_the_same_rows(staged, in_turn, scripted):
    stage = staged(in_turn=in_turn, scripted=scripted)
    stage.play(1, 2)
    kept = {name: a.copy() for name, a in stage.arena.snapshots().read(2).items()}
    played = stage.play(3, 4, 5)
    rows, hashes = stage.rows(), stage.actor.state.hashes.copy()

    stage.actor._restore(kept)
    again = stage.play(3, 4, 5)

    assert stage.rows() == rows
    np.testing.assert_array_equal(stage.actor.state.hashes, hashes)
    assert [one.metrics for one in again] == [one.metrics for one in played]
    for one, other in zip(played, again, strict=True):
        assert [vars_of(e) for e in one.episodes] == [vars_of(e) for e in other.episodes]


def vars_of(episode):
    counts = {name: array.tolist() for name, array in episode.counts.items()}
    return vars(episode) | {"returns": episode.returns.tolist(), "counts": counts}


@both_ways
def test_a_new_actor_goes_on_from_the_block_where_another_left_its_snapshot(
    staged, in_turn
):
    whole, killed = (staged(in_turn=in_turn, scripted=[1]) for _ in range(2))
    whole.play(1, 2, 3, 4, 5)
    killed.play(1, 2)
    replacement = staged(in_turn=in_turn, scripted=[1])
    for spec in replacement.game.agents:
        theirs = killed.arena.rows(spec.id).records
        replacement.arena.rows(spec.id).records[...] = theirs
    # Read in place: the slot it restores from is written again by round 4.
    replacement.arena.snapshots().publish(2, killed.arena.snapshots().read(2))

    replacement.actor._restore(replacement.arena.snapshots().read(2))
    replacement.play(3, 4, 5)

    assert replacement.rows() == whole.rows()
    np.testing.assert_array_equal(replacement.actor.state.hashes, whole.actor.state.hashes)


@pytest.mark.shows("B12")
@pytest.mark.parametrize("turn", [7, 9], ids=["an earlier frame", "a turn to be repeated"])
def test_a_new_actor_does_not_go_on_from_a_damaged_row(staged, turn):
    stage = staged(scripted=[1])
    stage.play(1, 2, 3)
    stage.arena.counters.store(SNAPSHOT, 3)  # killed in round 3: the newest is of round 2
    stage.replace_actor(Meadow())
    for spec in stage.game.agents:
        rows = stage.arena.rows(spec.id)
        rows.columns["action"][turn % rows.slots] ^= 1

        with pytest.raises(DamagedRow, match=f"row {turn} of agent '{spec.id}' is damaged"):
            stage.actor.begin()

        rows.columns["action"][turn % rows.slots] ^= 1
    assert stage.actor.begin() == 2


def test_a_snapshot_stays_whole_while_the_round_after_it_is_played_again(staged):
    """An actor killed in that round, too, is replaced by one that starts from it."""
    stage = staged(scripted=[1])
    stage.play(1, 2)
    taken = stage.arena.snapshots().read(2)
    before = {name: array.copy() for name, array in taken.items()}

    stage.actor._restore(taken)
    stage.play(3)

    for name, array in stage.arena.snapshots().read(2).items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)


def test_a_player_forgets_when_an_episode_starts(staged):
    stage = staged(scripted=[1])

    stage.play(1, 2, 3)

    wanted = [[turn % (4 + world) + 1 for world in range(WORLDS)] for turn in range(12)]
    assert np.stack(stage.players[1].kept).tolist() == wanted


# Episodes and figures.


def test_ended_episodes_are_reported_in_the_round_in_which_they_end(staged):
    stage = staged()

    first, second = stage.play(1, 2)

    assert [(e.world, e.turns) for e in first.episodes] == [(0, 3), (1, 4)]
    assert [(e.world, e.turns) for e in second.episodes] == [(2, 5), (0, 3)]
    assert first.episodes[0].returns.tolist() == [1 + 2 + 3, 10 + 11]
    assert first.episodes[0].counts["visits"].tolist() == [3, 2]


def test_the_reported_reward_is_per_turn_and_world(staged):
    stage = staged()

    (played,) = stage.play(1)

    rewards = np.stack([outcome.rewards for outcome in stage.game.outcomes])
    wanted = rewards.mean(axis=(0, 1))
    found = [played.metrics[spec.id]["reward"] for spec in stage.game.agents]
    assert found == pytest.approx(wanted.tolist())


# The row hash.


def test_the_row_hash_is_a_chain_over_rounds_without_sequence_and_checksum(staged):
    stage = staged()

    stage.play(1, 2)

    for place, spec in enumerate(stage.game.agents):
        records = stage.arena.rows(spec.id).records
        columns = [
            name for name in records.dtype.names if name not in ("sequence", "checksum")
        ]
        found = bytes(32)
        for start in (0, 4):
            chain = hashlib.sha256(found)
            for record in records[start : start + 4]:
                for name in columns:
                    chain.update(np.ascontiguousarray(record[name]).tobytes())
            found = chain.digest()
        assert stage.actor.state.hashes[place].tobytes() == found


@pytest.mark.parametrize(
    ("turn", "world", "agent"),
    [
        (0, 0, 0),
        (1, 2, 1),
        (3, 1, 0),
        (4, 0, 1),
        (5, 1, 0),
        (6, 0, 0),
        (7, 2, 1),
        (7, 1, 1),
    ],
)
def test_any_other_row_gives_another_row_hash_and_only_to_its_agent(
    staged, turn, world, agent
):
    plain, other = staged(), staged(bonus=(turn, world, agent))

    plain.play(1, 2)
    other.play(1, 2)

    ours, theirs = plain.actor.state.hashes, other.actor.state.hashes
    assert ours[agent].tobytes() != theirs[agent].tobytes()
    assert ours[1 - agent].tobytes() == theirs[1 - agent].tobytes()


def test_a_row_of_an_earlier_round_still_counts_in_later_hashes(staged):
    plain, other = staged(), staged(bonus=(0, 0, 0))

    plain.play(1, 2, 3)
    other.play(1, 2, 3)

    assert plain.actor.state.hashes[0].tobytes() != other.actor.state.hashes[0].tobytes()


# A game that cannot be brought back.


class Forgetful(Meadow):
    """A meadow that nobody can go back to; it breaks in a turn."""

    breaks = None
    snapshot, restore = Game.snapshot, Game.restore

    def end_turn(self):
        if self.turn == self.breaks:
            raise ValueError("lost")
        return super().end_turn()


LOST = TURNS + 2
"""Turns that were committed when the game was lost."""


@pytest.fixture
def interrupted(staged):
    """A stage whose actor was lost in round 2, a new one that has begun, and old rows."""
    stage = staged(game=Forgetful())
    stage.game.breaks = LOST
    stage.actor.begin()
    stage.play(1)
    with pytest.raises(GameError, match="lost"):
        stage.play(2)
    kept = [stage.rows_until(agent, LOST) for agent in (0, 1)]
    stage.replace_actor(Forgetful())
    assert stage.actor.begin() == 1
    return stage, kept


def test_a_game_that_cannot_be_brought_back_loses_nothing_that_was_committed(interrupted):
    stage, kept = interrupted

    (played,) = stage.play(2)

    assert [stage.rows_until(agent, LOST) for agent in (0, 1)] == kept
    assert stage.arena.counters.load(COMMIT) == 2 * TURNS
    assert played.interrupted
    assert not stage.play(3)[0].interrupted


def test_its_open_episodes_are_closed_as_truncated_and_a_new_one_begins(interrupted):
    stage, _ = interrupted
    # World 0 is in its second episode, world 1 has just begun its own, and world 2 has
    # just closed its first.
    ages = stage.arena.rows("ant").columns["age"][LOST - 1].tolist()
    assert ages == [1, 0, 5]

    stage.play(2, 3)

    for agent in (0, 1):
        cut, closing = slice(LOST, LOST + 1), slice(LOST + 1, LOST + 2)
        assert not stage.column(agent, "active")[LOST : LOST + 2].any()
        assert not stage.column(agent, "truncated")[closing].any()
        assert stage.column(agent, "reward")[LOST : LOST + 2].sum() == 0
    assert stage.column(0, "truncated")[cut].tolist() == [[True, True, False]]
    assert stage.column(0, "age")[LOST + 2].tolist() == [0, 0, 0]
    np.testing.assert_array_equal(
        stage.column(0, "part.spot")[LOST], stage.column(0, "part.spot")[LOST - 1]
    )
