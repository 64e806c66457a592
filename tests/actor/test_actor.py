"""The actor: what it writes in every turn, when it commits, and how it resumes."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace

import numpy as np
import pytest

from rookery.actor.actor import Actor
from rookery.actor.boundary import Boundary
from rookery.actor.policies import PolicyRunner, Weights
from rookery.actor.state import ActorState, BoundaryState, snapshot_of
from rookery.algorithms.base import Agent, Algorithm, Policy, PolicyOutput
from rookery.algorithms.common.schedules import epsilon
from rookery.algorithms.grouping import groups_of
from rookery.algorithms.iqn import IqnLearner
from rookery.config.agent import AgentSettings, EpsilonConfig
from rookery.config.base import Settings
from rookery.errors import GameError
from rookery.games.base import Game, Observations, Outcome
from rookery.games.guard import GuardedGame
from rookery.games.players import Player
from rookery.learner.learner import reader_of
from rookery.protocol.arena import COMMIT, SNAPSHOT, AgentMemory, Arena
from rookery.protocol.shares import shares_of
from rookery.replay.buffer import DamagedRow
from rookery.rng import Purpose, Stream
from rookery.specs import AgentSpec, Part
from tests.actor.rewind import rewind

WORLDS, TURNS = 3, 4  # worlds, and turns per round
SPEC = AgentSpec(
    "ant", "insect", {"spot": Part((3,), np.dtype(np.int32))}, ("x", "y", "z"), masked=True
)
BEE = AgentSpec("bee", "insect", SPEC.parts, SPEC.actions, masked=True)


class Meadow(Game):
    """An ant that always acts, a bee that acts every other turn and ends a turn earlier.

    World w plays episodes of 3 + w turns. Observations hold the sum of both agents'
    actions, so the second agent of a turn observes what the first one has done.
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
        """(worlds, agents): whether an agent's last turn is over."""
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
        for index, agent in enumerate(agents):
            self.taken[self.turn, agent] = actions[:, index].copy()
            self.done[:, agent] += actions[:, index] + 1

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
    """Acts by its draws and its weights, and keeps all inputs."""

    inputs: list
    rounds: list

    def begin_round(self, weights, number):
        self.weights = np.stack(weights)
        self.rounds.append((number, self.weights.copy()))

    def act(self, policy_input):
        numbers = tuple(agent.number for agent in self.agents)
        self.inputs.append(SimpleNamespace(agents=numbers, **vars(policy_input)))
        spots = np.stack(
            [parts["spot"].sum(axis=(1, 2)) for parts in policy_input.observations]
        )
        scores = policy_input.draws[..., 0] * 1000 + spots + self.weights.sum()
        actions = scores.astype(np.int64) % 3
        legal = np.stack(policy_input.legal)
        is_legal = np.take_along_axis(legal, actions[..., None], axis=2)[..., 0]
        return PolicyOutput(
            np.where(is_legal, actions, 0),
            policy_input.draws[..., 1].astype(np.float32),
            np.ones(actions.shape),
            np.zeros(actions.shape),
        )


class Counting(Player):
    """Remembers how many turns it has played in an episode, and acts by it."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.memory["turns"] = np.zeros(self.worlds, np.int64)
        self.kept = []

    def act(self, observation, turn):
        self.memory["turns"] += 1
        self.kept.append(self.memory["turns"].copy())
        return np.where(observation.active, 2 * (self.memory["turns"] % 4 > 1), 0)


class Harness:
    """An actor with everything it needs, and no learner."""

    def __init__(self, scripted=(), frames=2, slots=40, game=None, **options):
        self.game = game or Meadow(**options)
        guarded = GuardedGame(self.game, "meadow")
        self.scout = type("Scout", (Scout,), {"inputs": [], "rounds": []})
        settings = AgentSettings(frames=frames, epsilon=EpsilonConfig(steps=20))
        algorithm = Algorithm("scout", self.scout, IqnLearner)
        self.agents = [
            Agent(i, spec, settings, *role)
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
        first = BoundaryState.initial(2).arrays()
        first |= snapshot_of(guarded, ActorState(self.agents, guarded), self.players)
        shapes = {name: (array.shape, array.dtype) for name, array in first.items()}
        self.arena = Arena.planned(WORLDS, memory, shapes)
        self.arena.allocate()
        shares = shares_of(WORLDS, 1)
        self.boundary = Boundary(self.agents, self.arena, shares, TURNS)
        self.replace_actor(self.game)
        self.actor.begin()
        self.boundary.begin()

    def replace_actor(self, game):
        """Replace the actor and its game; the rows stay."""
        (share,) = shares_of(WORLDS, 1)
        policies = PolicyRunner(groups_of(self.agents), 0, WORLDS)
        guarded = GuardedGame(game, "meadow")
        self.game = game
        self.actor = Actor(
            guarded, self.agents, self.players, self.arena, share, policies, TURNS
        )

    @property
    def newest(self):
        """What all worlds have in common at the newest boundary."""
        snapshots = self.arena.snapshots()
        return BoundaryState.of_snapshot(snapshots.read(snapshots.version))

    def play(self, *rounds):
        """Play rounds; agent i plays round k with weights 10 * k + i."""
        reports = []
        for number in rounds:
            weights = Weights(
                {i: np.full(2, 10 * (number - 1) + i, np.float32) for i in (0, 1)},
                {i: number - 1 for i in (0, 1) if self.agents[i].learns},
            )
            self.actor.play_round(number, weights)
            reports.append(self.boundary.complete(number))
        return reports

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
def make():
    """Build harnesses: make(in_turn=True, …)."""
    harnesses = []

    def build(**options):
        harnesses.append(Harness(**options))
        return harnesses[-1]

    yield build
    for harness in harnesses:
        harness.close()


both_ways = pytest.mark.parametrize("in_turn", [False, True], ids=["at once", "in turn"])
each = pytest.mark.parametrize("agent", [0, 1], ids=["ant", "bee"])


# Rows.


@both_ways
@each
def test_rows_hold_observations_as_the_game_gave_them(make, in_turn, agent):
    harness = make(in_turn=in_turn)

    harness.play(1, 2, 3)

    for turn in range(12):
        spot, active, legal = harness.game.shown[turn, agent]
        np.testing.assert_array_equal(harness.column(agent, "part.spot")[turn], spot)
        np.testing.assert_array_equal(harness.column(agent, "active")[turn], active)
        np.testing.assert_array_equal(harness.column(agent, "legal")[turn], legal)


@both_ways
@each
def test_rows_hold_the_actions_taken(make, in_turn, agent):
    harness = make(in_turn=in_turn)

    harness.play(1, 2, 3)

    taken = np.stack([harness.game.taken[turn, agent] for turn in range(12)])
    np.testing.assert_array_equal(harness.column(agent, "action"), taken)
    assert len(set(taken.ravel().tolist())) == 3  # it did not do the same all the time


@each
def test_rows_hold_rewards_and_ends(make, agent):
    harness = make()

    harness.play(1, 2, 3)

    for turn, outcome in enumerate(harness.game.outcomes):
        for name, column in (
            ("reward", outcome.rewards),
            ("terminated", outcome.terminated),
            ("truncated", outcome.truncated),
        ):
            np.testing.assert_array_equal(
                harness.column(agent, name)[turn], column[:, agent]
            )


@each
def test_the_age_of_a_row_is_its_position_in_the_episode(make, agent):
    harness = make()

    harness.play(1, 2, 3)

    wanted = [[turn % (3 + world + 1) for world in range(WORLDS)] for turn in range(12)]
    assert harness.column(agent, "age").tolist() == wanted  # 3 + w turns, and a closing row


def test_rows_hold_the_version_that_acted(make):
    harness = make()

    harness.play(1, 2, 3)

    assert harness.column(0, "version").tolist() == [0] * 4 + [1] * 4 + [2] * 4


@both_ways
@each
def test_rows_hold_the_probability_of_the_action(make, in_turn, agent):
    harness = make(in_turn=in_turn)

    harness.play(1, 2)

    mine = [
        each.draws[each.agents.index(agent), :, 1]
        for each in harness.scout.inputs
        if agent in each.agents
    ]
    wanted = np.array(mine, np.float32)
    np.testing.assert_array_equal(harness.column(agent, "probability"), wanted)


def test_the_probability_of_a_scripted_action_is_one(make):
    harness = make(scripted=[1])

    harness.play(1)

    assert (harness.column(1, "probability") == 1).all()
    done = 2 * (np.stack(harness.players[1].kept) % 4 > 1) * harness.column(1, "active")
    np.testing.assert_array_equal(harness.column(1, "action"), done)


@both_ways
def test_an_agent_that_is_not_active_takes_no_action(make, in_turn):
    harness = make(in_turn=in_turn)

    harness.play(1, 2, 3)

    for agent in (0, 1):
        active, done = harness.column(agent, "active"), harness.column(agent, "action")
        assert not active.all()
        assert not done[~active].any()


def test_in_turn_the_second_agent_observes_what_the_first_did(make):
    harness = make(in_turn=True)

    harness.play(1)

    ant, bee = (harness.column(agent, "part.spot")[..., 1] for agent in (0, 1))
    ant_did, bee_did = (harness.column(agent, "action") + 1 for agent in (0, 1))
    np.testing.assert_array_equal(ant[0], bee[0] + bee_did[0])  # the bee is first here
    np.testing.assert_array_equal(bee[1], ant[1] + ant_did[1])


def test_every_row_is_whole(make):
    harness = make()

    harness.play(1, 2)

    for spec in harness.game.agents:
        rows = harness.arena.rows(spec.id)
        assert all(rows.is_whole(turn) for turn in range(8))
        assert not rows.is_whole(8)


# Policy inputs.


@pytest.mark.shows("B6")
@both_ways
@each
def test_policy_inputs_are_stacked_from_rows(make, in_turn, agent):
    harness = make(in_turn=in_turn, frames=3)

    harness.play(1, 2, 3)

    observer = harness.agents[agent]
    reader = reader_of(observer, harness.arena.rows(observer.id), TURNS)
    acted_on = [
        each.observations[each.agents.index(agent)]
        for each in harness.scout.inputs
        if agent in each.agents
    ]
    assert len(acted_on) == 3 * TURNS
    for turn, parts in enumerate(acted_on):
        stacked = reader.observations(np.full(WORLDS, turn), np.arange(WORLDS))
        np.testing.assert_array_equal(stacked["spot"], parts["spot"])
        assert parts["spot"].shape == (WORLDS, 3, 3)


def test_agents_that_act_at_the_same_time_are_computed_in_one_pass(make):
    harness = make()

    harness.play(1)

    assert [each.agents for each in harness.scout.inputs] == [(0, 1)] * TURNS


def test_a_round_is_played_with_the_weights_given_for_it(make):
    harness = make()

    harness.play(1, 2)

    numbers = [number for number, _ in harness.scout.rounds]
    weights = [weights[:, 0].tolist() for _, weights in harness.scout.rounds]
    assert numbers == [1, 2]
    assert weights == [[0, 1], [10, 11]]


def test_begin_round_is_called_for_every_round(make):
    harness = make()

    harness.play(1, 2)

    assert harness.game.rounds == [1, 2]


@both_ways
def test_draws_depend_on_agent_world_and_turn_only(make, in_turn):
    once, again = make(in_turn=in_turn), make(in_turn=not in_turn)

    once.play(1, 2)
    again.play(1, 2)

    draws = [draws_of(once, agent) for agent in (0, 1)]
    for agent in (0, 1):
        np.testing.assert_array_equal(draws[agent], draws_of(again, agent))
    numbers = np.concatenate(draws, axis=None)
    assert len(np.unique(numbers)) == numbers.size


def draws_of(harness, agent):
    return np.stack(
        [
            each.draws[each.agents.index(agent)]
            for each in harness.scout.inputs
            if agent in each.agents
        ]
    )


# Steps and exploration.


@both_ways
def test_steps_count_the_turns_in_which_an_agent_was_active(make, in_turn):
    harness = make(in_turn=in_turn)

    harness.play(1, 2, 3)

    active = [harness.column(agent, "active").sum() for agent in (0, 1)]
    assert harness.newest.steps.tolist() == active
    assert active[0] > active[1] > 0


def test_steps_are_reported(make):
    harness = make()

    *_, report = harness.play(1, 2)

    reported = [report.metrics[spec.id]["steps"] for spec in harness.game.agents]
    assert reported == harness.newest.steps.tolist()


@pytest.mark.shows("C3")
@both_ways
@each
def test_exploration_follows_the_agents_own_steps_at_the_start_of_the_round(
    make, in_turn, agent
):
    harness = make(in_turn=in_turn)

    reports = harness.play(1, 2, 3)

    probabilities = [
        each.exploration[each.agents.index(agent)]
        for each in harness.scout.inputs
        if agent in each.agents
    ]
    active = harness.column(agent, "active")
    settings = harness.agents[agent].settings.epsilon
    expected = [epsilon(settings, active[:turn].sum()) for turn in (0, TURNS, 2 * TURNS)]
    assert probabilities == [each for each in expected for _ in range(TURNS)]
    assert len(set(probabilities)) == 3
    spec = harness.game.agents[agent]
    assert [report.metrics[spec.id]["epsilon"] for report in reports] == expected


@pytest.mark.shows("C3")
def test_exploration_ends_where_the_settings_say():
    settings = EpsilonConfig(start=0.8, end=0.1, steps=70)

    probabilities = [epsilon(settings, steps) for steps in (0, 35, 70, 1000)]

    assert probabilities == pytest.approx([0.8, 0.45, 0.1, 0.1])


# Committing.


@both_ways
def test_a_turn_is_committed_after_all_rows_of_all_agents(make, in_turn):
    harness = make(in_turn=in_turn)
    committed = watch_commits(harness)

    harness.play(1, 2)

    assert [value for value, _ in committed] == list(range(1, 9))
    assert all(whole for _, whole in committed)


def watch_commits(harness):
    """Note each commit, and whether the rows of that turn were all whole by then."""
    counters, committed = harness.arena.counters, []
    store = counters.store

    def watched(name, value):
        if name == COMMIT:
            rows = [harness.arena.rows(spec.id) for spec in harness.game.agents]
            committed.append((value, all(each.is_whole(value - 1) for each in rows)))
        store(name, value)

    counters.store = watched
    return committed


def test_nothing_is_committed_while_a_turn_is_played(make, monkeypatch):
    harness = make()
    commits = []
    act = harness.game.act

    def watched(agents, actions):
        commits.append(harness.arena.counters.load(COMMIT))
        act(agents, actions)

    monkeypatch.setattr(harness.game, "act", watched)
    harness.play(1)

    assert commits == [0, 1, 2, 3]
    assert harness.arena.counters.load(COMMIT) == 4


def test_a_turn_in_which_the_game_fails_is_not_committed(make, monkeypatch):
    harness = make()
    harness.play(1)

    def fall_over():
        raise RuntimeError("the meadow is flooded")

    monkeypatch.setattr(harness.game, "end_turn", fall_over)
    with pytest.raises(GameError, match="RuntimeError: the meadow is flooded"):
        harness.play(2)

    assert harness.arena.counters.load(COMMIT) == 4
    assert not harness.arena.rows("ant").is_whole(4)


def test_a_snapshot_is_published_at_every_boundary(make):
    harness = make()

    harness.play(1, 2)

    assert harness.arena.counters.load(SNAPSHOT) == 3  # boundary 2, plus one
    taken = harness.arena.snapshots().read(2)
    assert taken["life/turn"].tolist() == [8]
    np.testing.assert_array_equal(taken["game/clock"], harness.game.clock)
    active = [harness.column(agent, "active").sum() for agent in (0, 1)]
    assert taken["life/steps"].tolist() == active


# Resuming.


@both_ways
@pytest.mark.parametrize("scripted", [[], [1]], ids=["learning", "with a player"])
def test_rounds_played_again_from_a_snapshot_give_the_same_rows(make, in_turn, scripted):
    harness = make(in_turn=in_turn, scripted=scripted)
    harness.play(1, 2)
    kept = {name: a.copy() for name, a in harness.arena.snapshots().read(2).items()}
    played = harness.play(3, 4, 5)
    rows, hashes = harness.rows(), harness.newest.hashes

    rewind(harness.arena, harness.actor, 2, kept)
    again = harness.play(3, 4, 5)

    assert harness.rows() == rows
    np.testing.assert_array_equal(harness.newest.hashes, hashes)
    for first, second in zip(played, again, strict=True):
        assert first.metrics == second.metrics
        assert list(map(vars_of, first.episodes)) == list(map(vars_of, second.episodes))


def vars_of(episode):
    counts = {name: array.tolist() for name, array in episode.counts.items()}
    return vars(episode) | {"returns": episode.returns.tolist(), "counts": counts}


@both_ways
def test_a_new_actor_continues_from_the_snapshot_of_another(make, in_turn):
    whole, killed = (make(in_turn=in_turn, scripted=[1]) for _ in range(2))
    whole.play(1, 2, 3, 4, 5)
    killed.play(1, 2)
    replacement = make(in_turn=in_turn, scripted=[1])
    for spec in replacement.game.agents:
        theirs = killed.arena.rows(spec.id).records
        replacement.arena.rows(spec.id).records[...] = theirs
    # Read in place: the slot it restores from is written again by round 4.
    rewind(replacement.arena, replacement.actor, 2, killed.arena.snapshots().read(2))
    replacement.play(3, 4, 5)

    assert replacement.rows() == whole.rows()
    np.testing.assert_array_equal(replacement.newest.hashes, whole.newest.hashes)


@pytest.mark.shows("B12")
@pytest.mark.parametrize("turn", [7, 9], ids=["an earlier frame", "a turn to be repeated"])
def test_a_new_actor_refuses_a_damaged_row(make, turn):
    harness = make(scripted=[1])
    harness.play(1, 2, 3)
    harness.arena.counters.store(SNAPSHOT, 3)  # killed in round 3: the newest is of round 2
    harness.arena.begin_shares()
    harness.replace_actor(Meadow())
    for spec in harness.game.agents:
        rows = harness.arena.rows(spec.id)
        rows.columns["action"][turn % rows.slots] ^= 1

        with pytest.raises(DamagedRow, match=f"row {turn} of agent '{spec.id}' is damaged"):
            harness.actor.begin()

        rows.columns["action"][turn % rows.slots] ^= 1
    assert harness.actor.begin() == 2


def test_a_snapshot_stays_whole_while_the_round_after_it_is_played_again(make):
    """An actor killed in that round, too, is replaced by one that starts from it."""
    harness = make(scripted=[1])
    harness.play(1, 2)
    taken = harness.arena.snapshots().read(2)
    before = {name: array.copy() for name, array in taken.items()}

    rewind(harness.arena, harness.actor, 2, taken)
    harness.play(3)

    for name, array in harness.arena.snapshots().read(2).items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)


def test_a_player_forgets_when_an_episode_starts(make):
    harness = make(scripted=[1])

    harness.play(1, 2, 3)

    wanted = [[turn % (4 + world) + 1 for world in range(WORLDS)] for turn in range(12)]
    assert np.stack(harness.players[1].kept).tolist() == wanted


# Reports.


def test_ended_episodes_are_reported_in_the_round_in_which_they_end(make):
    harness = make()

    first, second = harness.play(1, 2)

    assert [(e.world, e.turns) for e in first.episodes] == [(0, 3), (1, 4)]
    assert [(e.world, e.turns) for e in second.episodes] == [(2, 5), (0, 3)]
    assert first.episodes[0].returns.tolist() == [1 + 2 + 3, 10 + 11]
    assert first.episodes[0].counts["visits"].tolist() == [3, 2]


def test_the_reported_reward_is_per_turn_and_world(make):
    harness = make()

    (report,) = harness.play(1)

    rewards = np.stack([outcome.rewards for outcome in harness.game.outcomes])
    wanted = rewards.mean(axis=(0, 1))
    reported = [report.metrics[spec.id]["reward"] for spec in harness.game.agents]
    assert reported == pytest.approx(wanted.tolist())


# The row hash.


def test_the_row_hash_is_a_chain_over_rounds_without_sequence_and_checksum(make):
    harness = make()

    harness.play(1, 2)

    for index, spec in enumerate(harness.game.agents):
        records = harness.arena.rows(spec.id).records
        columns = [
            name for name in records.dtype.names if name not in ("sequence", "checksum")
        ]
        row_hash = bytes(32)
        for start in (0, 4):
            chain = hashlib.sha256(row_hash)
            for record in records[start : start + 4]:
                for name in columns:
                    chain.update(np.ascontiguousarray(record[name]).tobytes())
            row_hash = chain.digest()
        assert harness.newest.hashes[index].tobytes() == row_hash


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
def test_changing_any_row_changes_the_row_hash_of_its_agent_only(make, turn, world, agent):
    plain, other = make(), make(bonus=(turn, world, agent))

    plain.play(1, 2)
    other.play(1, 2)

    ours, theirs = plain.newest.hashes, other.newest.hashes
    assert ours[agent].tobytes() != theirs[agent].tobytes()
    assert ours[1 - agent].tobytes() == theirs[1 - agent].tobytes()


def test_a_row_of_an_earlier_round_still_counts_in_later_hashes(make):
    plain, other = make(), make(bonus=(0, 0, 0))

    plain.play(1, 2, 3)
    other.play(1, 2, 3)

    assert plain.newest.hashes[0].tobytes() != other.newest.hashes[0].tobytes()


# A game that cannot be restored.


class Forgetful(Meadow):
    """A meadow without snapshots that raises an error in one turn."""

    breaks = None
    snapshot, restore = Game.snapshot, Game.restore

    def end_turn(self):
        if self.turn == self.breaks:
            raise ValueError("lost")
        return super().end_turn()


LOST = TURNS + 2
"""The number of turns committed when the game was lost."""


@pytest.fixture
def interrupted(make):
    """A harness whose actor was lost in round 2 and replaced, and the rows until then."""
    harness = make(game=Forgetful())
    harness.game.breaks = LOST
    harness.actor.begin()
    harness.play(1)
    with pytest.raises(GameError, match="lost"):
        harness.play(2)
    kept = [harness.rows_until(agent, LOST) for agent in (0, 1)]
    harness.replace_actor(Forgetful())
    assert harness.actor.begin() == 1
    return harness, kept


def test_a_game_that_cannot_be_restored_loses_no_committed_turn(interrupted):
    harness, kept = interrupted

    (report,) = harness.play(2)

    assert [harness.rows_until(agent, LOST) for agent in (0, 1)] == kept
    assert harness.arena.counters.load(COMMIT) == 2 * TURNS
    assert report.interrupted
    assert not harness.play(3)[0].interrupted


def test_its_open_episodes_are_truncated_and_new_ones_start(interrupted):
    harness, _ = interrupted
    # World 0 is in its second episode, world 1 has just begun its own, and world 2 has
    # just closed its first.
    ages = harness.arena.rows("ant").columns["age"][LOST - 1].tolist()
    assert ages == [1, 0, 5]

    harness.play(2, 3)

    for agent in (0, 1):
        cut, closing = slice(LOST, LOST + 1), slice(LOST + 1, LOST + 2)
        assert not harness.column(agent, "active")[LOST : LOST + 2].any()
        assert not harness.column(agent, "truncated")[closing].any()
        assert harness.column(agent, "reward")[LOST : LOST + 2].sum() == 0
    assert harness.column(0, "truncated")[cut].tolist() == [[True, True, False]]
    assert harness.column(0, "age")[LOST + 2].tolist() == [0, 0, 0]
    np.testing.assert_array_equal(
        harness.column(0, "part.spot")[LOST], harness.column(0, "part.spot")[LOST - 1]
    )
