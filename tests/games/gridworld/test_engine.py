"""The engine behind the game contract: turns, order, ends, closing turns, snapshots."""

from __future__ import annotations

import re

import numpy as np
import pytest

from rookery.games.gridworld import (
    MOVES,
    TURNS,
    Body,
    GridGame,
    Kind,
    PerAgent,
    PerCell,
    PerWorld,
    Vector,
    Window,
)

ACTIONS = (*MOVES, *TURNS, "zap", "quit", "finish", "stay")


class Arena(GridGame):
    """A bit of everything: things that appear, beams, absence, ends, columns."""

    counts = ("steps", "zaps")
    map = """
.......
.P...P.
...P...
.P...P.
......."""

    def declare(self):
        self.rock = Kind(solid=True, layer="ground", char="#")
        self.coin = Kind(value=1.0)
        self.flash = Kind(layer="light", lifetime=2, char="*")
        self.dust = PerCell(np.int16)
        self.luck = PerAgent()
        self.season = PerWorld(np.int64, default=3)
        window = Window(ahead=2, behind=1, sides=1, rotated=True)
        sees = {"view": window, "self": Vector("luck", "season")}
        self.knight = Body(ACTIONS, sees)

    def before(self, world):
        world.sprinkle(self.coin, chance=0.1)
        world.dust += world.mask(self.coin)
        world.season += world.chance(0.5)

    def act(self, world, me):
        me.steps += me.move()
        me.reward += world.value(me.cell)
        world.clear(me.cell, layer="things")
        me.luck += world.uniform()
        me.zaps += me.does("zap")
        for other, hit in me.beam(self.flash, 3, where=me.does("zap")):
            other.leave(4, where=hit)
        me.end(where=me.does("quit"))
        world.end(where=me.does("finish"))


class Quiet(Arena):
    """The arena in which nothing appears."""

    def before(self, world):
        pass


class Duel(GridGame):
    """One coin between two agents, put back every turn."""

    map = ".P.\n.P."

    def declare(self):
        self.coin = Kind(value=1.0)
        self.fencer = Body((*MOVES, "stay"), sees={"view": Window(radius=2)})

    def before(self, world):
        for me, spot in zip(world.agents, (0, 2), strict=True):
            me.place(np.full(world.worlds, world.layout.inside[spot]))
        world.put(self.coin, np.full(world.worlds, world.layout.inside[1]))

    def act(self, world, me):
        me.reward += world.value(me.target)
        world.clear(me.target, layer="things")
        me.move()


class Diary(Quiet):
    """Records the order of calls."""

    def declare(self):
        super().declare()
        self.events = []

    def before(self, world):
        self.events.append("before")

    def act(self, world, me):
        self.events.append(me.number)

    def after(self, world):
        self.events.append("after")


def play_randomly(board, turns, seed=0, first_world=0):
    """Play random actions, and return everything that the engine returned, turn by turn.

    The actions depend only on world, turn and agent.
    """
    engine, turns_played = board.engine, []
    for turn in range(turns):
        choices = np.stack(
            [
                np.random.default_rng((seed, turn, first_world + i)).integers(
                    len(ACTIONS), size=len(board.agents)
                )
                for i in range(engine.worlds)
            ]
        )
        rare = np.isin(choices, [ACTIONS.index("quit"), ACTIONS.index("finish")])
        choices[rare & (turn % 9 != 0)] = 0  # otherwise no episode lasts
        results = {}
        for phase in engine.begin_turn():
            board.look(phase)
            for i in phase:
                results |= {f"{name} {i}": part for name, part in board.seen[i].items()}
                results[f"active {i}"] = board.active[i]
            engine.act(phase, choices[:, list(phase)])
        outcome = engine.end_turn()
        results |= {"rewards": outcome.rewards, "terminated": outcome.terminated}
        results |= {"truncated": outcome.truncated, **outcome.counts}
        turns_played.append({name: array.copy() for name, array in results.items()})
    return turns_played


def differences(one, other, pick=slice(None)):
    """Return what differs between two games, as (turn, name)."""
    return [
        (turn, name)
        for turn, (mine, theirs) in enumerate(zip(one, other, strict=True))
        for name in mine
        if mine[name][pick].tobytes() != theirs[name].tobytes()
    ]


def state(board, world=slice(None)):
    """Return copies of all state, except columns of a single turn."""
    of_one_turn = {"reward", "score", "clock", *board.rules.counts}
    return {
        name: array[world].copy()
        for name, array in board.engine.snapshot().items()
        if name not in of_one_turn
    }


def changed(one, other):
    return [name for name in one if not np.array_equal(one[name], other[name])]


# One turn.


def test_turn_is_before_then_every_agent_then_after(board):
    diary = board(Diary, agents=3, order="fixed")

    diary.turn()
    diary.turn()

    assert diary.rules.events == ["before", 0, 1, 2, "after"] * 2


@pytest.mark.shows("H1")
@pytest.mark.parametrize("acting", ["simultaneous", "in_turn"])
def test_things_that_are_not_agents_move_before_any_agent_observes(board, acting):
    class Clock(Quiet):
        def before(self, world):
            world.put(self.coin, world.layout.inside[world.turn])

    clock = board(Clock, agents=3, acting=acting)
    for turn in range(1, 4):
        phases = clock.engine.begin_turn()

        cell = np.array([clock.engine.layout.inside[turn]])
        assert clock.world.has(clock.rules.coin, cell).all()
        for phase in phases:
            clock.engine.observe(phase)
            clock.engine.act(phase, np.full((1, len(phase)), len(ACTIONS) - 1))
        clock.engine.end_turn()


@pytest.mark.shows("H1")
def test_a_thing_that_appears_this_turn_blocks_an_agent(board):
    class Rockfall(Quiet):
        def before(self, world):
            world.put(self.rock, world.agents[0].cell + 1)

    fall = board(Rockfall, agents=1)
    fall.place(0, 2, 2)

    fall.turn("right")

    assert fall.spot(0) == (2, 2)


@pytest.mark.shows("H1")
def test_the_first_observation_of_an_episode_includes_its_first_move_of_things(board):
    class Shower(Quiet):
        def before(self, world):
            world.sprinkle(self.coin, chance=1)

    shower = board(Shower, worlds=2, agents=1)

    shower.turn()

    coin = shower.engine.agents[0].parts["view"].labels.index("coin")
    assert (shower.seen[0]["view"][:, coin].sum(axis=(1, 2)) > 0).all()


def test_rewards_are_zero_again_at_the_start_of_a_turn(board):
    duel = board(Duel, agents=2, order="fixed")

    first = duel.turn("right", "stay").rewards
    second = duel.turn("stay", "stay").rewards

    assert first.tolist() == [[1, 0]]
    assert second.tolist() == [[0, 0]]


def test_outcome_has_an_entry_per_world_and_agent(board):
    outcome = board(Arena, worlds=3, agents=2).turn()

    assert outcome.rewards.shape == (3, 2)
    assert outcome.rewards.dtype == np.float32
    assert outcome.terminated.shape == outcome.truncated.shape == (3, 2)
    assert outcome.terminated.dtype == outcome.truncated.dtype == np.bool_


def test_counts_are_those_of_a_single_turn(board):
    arena = board(Quiet, worlds=2, agents=2)

    first = arena.turn(["zap", "stay"], "stay").counts
    second = arena.turn("stay", "stay").counts

    assert set(first) == {"steps", "zaps"}
    assert first["zaps"].tolist() == [[1, 0], [0, 0]]
    assert second["zaps"].tolist() == [[0, 0], [0, 0]]


def test_scores_are_reported_beside_rewards_in_a_scored_game(board):
    class Shaped(Quiet):
        scored = True

        def act(self, world, me):
            me.reward += 0.5
            me.score += me.number + 1

    outcome = board(Shaped, agents=2).turn()

    assert outcome.rewards.tolist() == [[0.5, 0.5]]
    assert outcome.scores.tolist() == [[1, 2]]


def test_game_that_is_not_scored_has_no_scores(board):
    assert board(Quiet).turn().scores is None


def test_outcome_does_not_change_afterwards(board):
    duel = board(Duel, agents=2, order="fixed")
    outcome = duel.turn("right", "stay")

    duel.turn("stay", "stay")

    assert outcome.rewards.tolist() == [[1, 0]]


def test_legal_is_called_for_every_agent(board):
    class Picky(Quiet):
        def legal(self, world, me):
            legal = np.zeros((world.worlds, len(ACTIONS)), bool)
            legal[:, me.number] = True
            return legal

    picky = board(Picky, worlds=2, agents=2)

    picky.look((1, 0))

    assert picky.legal[0].argmax(axis=1).tolist() == [0, 0]
    assert picky.legal[1].argmax(axis=1).tolist() == [1, 1]


def test_all_actions_are_legal_by_default(board):
    quiet = board(Quiet, agents=2)

    quiet.look((0, 1))

    assert quiet.legal == {0: None, 1: None}


def test_every_agent_on_the_map_is_active(board):
    quiet = board(Quiet, worlds=3, agents=2)

    quiet.turn()

    assert [quiet.active[i].tolist() for i in range(2)] == [[True] * 3] * 2


def test_round_is_passed_on_to_the_rules(board):
    class School(Quiet):
        def begin_round(self, number):
            self.lesson = number

    school = board(School)

    school.engine.begin_round(7)

    assert school.rules.lesson == 7


# Acting, and the order.


def test_simultaneous_agents_are_one_phase(board):
    arena = board(Quiet, agents=3, acting="simultaneous")

    (phase,) = arena.engine.begin_turn()

    assert sorted(phase) == [0, 1, 2]


def test_agents_in_turn_are_a_phase_each(board):
    arena = board(Quiet, agents=3, acting="in_turn")

    phases = arena.engine.begin_turn()

    assert sorted(phases) == [(0,), (1,), (2,)]


def test_actions_take_effect_in_the_order_of_the_phases(board):
    diary = board(Diary, agents=4)

    for _ in range(20):
        diary.rules.events.clear()
        diary.turn()
        assert diary.rules.events[1:-1] == list(diary.phases[0])


def test_simultaneous_agents_all_observe_the_state_before_any_action(board):
    duel = board(Duel, agents=2, acting="simultaneous")

    for _ in range(10):
        duel.turn("right", "left")
        assert duel.seen[0]["view"][0, 0].sum() == 1  # the coin, still there
        assert duel.seen[1]["view"][0, 0].sum() == 1


def test_agents_in_turn_observe_the_effects_of_earlier_actions(board):
    duel = board(Duel, agents=2, acting="in_turn")

    for _ in range(10):
        duel.turn("right", "left")
        first, second = (phase[0] for phase in duel.phases)
        assert duel.seen[first]["view"][0, 0].sum() == 1
        assert duel.seen[second]["view"][0, 0].sum() == 0


def test_agent_zapped_before_its_phase_is_not_active_in_it(board):
    arena = board(Quiet, agents=2, acting="in_turn", order="fixed")
    arena.place(0, 2, 2, facing=1)
    arena.place(1, 2, 4)

    arena.turn("zap", "stay")

    assert arena.active[1].tolist() == [False]


def test_agent_zapped_before_its_simultaneous_action_does_not_act(board):
    arena = board(Quiet, agents=2, order="fixed")
    arena.place(0, 2, 2, facing=1)
    arena.place(1, 2, 4, facing=3)

    outcome = arena.turn("zap", "zap")

    assert arena.active[1].tolist() == [True]
    assert outcome.counts["zaps"].tolist() == [[1, 0]]
    assert arena.agents[0].present.all()


@pytest.mark.shows("H2")
def test_fixed_order_is_by_number_every_turn(board):
    arena = board(Quiet, agents=4, order="fixed")

    phases = set()
    for _ in range(20):
        phases.add(arena.engine.begin_turn())
        arena.engine.end_turn()

    assert phases == {((0, 1, 2, 3),)}


def orders(board, number, **settings):
    """Return the orders of some turns in which nobody does anything."""
    engine = board(Diary, **settings).engine
    phases = []
    for _ in range(number):
        (phase,) = engine.begin_turn()
        engine.end_turn()
        phases.append(phase)
    return phases


@pytest.mark.shows("H2")
def test_every_shuffled_order_is_equally_likely(board):
    drawn = orders(board, 3000, agents=3)

    _, counts = np.unique(drawn, axis=0, return_counts=True)
    assert len(counts) == 6
    assert np.abs(counts - 500).max() < 5 * np.sqrt(500)


@pytest.mark.shows("H2")
def test_shuffled_order_does_not_depend_on_the_one_before(board):
    first = np.array(orders(board, 3000, agents=3))[:, 0]

    repeats = np.mean(first[1:] == first[:-1])
    assert abs(repeats - 1 / 3) < 5 * np.sqrt(2 / 9 / 3000)


@pytest.mark.shows("H2")
def test_shuffled_order_depends_on_seed_and_turn_alone(board):
    one = orders(board, 300, agents=3, worlds=1, turns=100)
    other = orders(board, 300, agents=3, worlds=5, first_world=2, turns=7)

    assert one == other
    assert one != orders(board, 300, agents=3, seed=1)


def test_the_order_of_a_turn_is_the_same_after_restoring(board):
    arena = board(Quiet, agents=4)
    for _ in range(10):
        arena.turn()
    kept = arena.engine.snapshot()
    first = arena.engine.begin_turn()
    arena.engine.end_turn()
    for _ in range(300):
        arena.turn()

    arena.engine.restore(kept)

    assert arena.engine.begin_turn() == first


@pytest.mark.shows("H2")
@pytest.mark.parametrize("acting", ["simultaneous", "in_turn"])
@pytest.mark.parametrize("order", ["shuffled", "fixed"])
def test_a_contested_thing_goes_to_exactly_one_agent(board, acting, order):
    duel = board(Duel, worlds=4, agents=2, acting=acting, order=order)

    for _ in range(50):
        rewards = duel.turn("right", "left").rewards
        assert rewards.sum(axis=1).tolist() == [1] * 4
        assert set(rewards.ravel()) == {0, 1}


@pytest.mark.shows("H2")
def test_with_shuffled_order_two_agents_each_win_half_of_their_contests(board):
    duel = board(Duel, agents=2, turns=2000)

    won = sum(duel.turn("right", "left").rewards[0, 0] for _ in range(1000))

    assert abs(won - 500) < 5 * np.sqrt(250)


@pytest.mark.shows("H2")
def test_with_fixed_order_the_first_agent_wins_every_contest(board):
    duel = board(Duel, agents=2, order="fixed")

    rewards = [duel.turn("right", "left").rewards[0].tolist() for _ in range(20)]

    assert rewards == [[1, 0]] * 20


@pytest.mark.shows("H2")
def test_a_contested_cell_is_entered_by_exactly_one_agent(board):
    duel = board(Duel, agents=2)

    for _ in range(30):
        duel.turn("right", "left")
        inside = [duel.spot(i) == (0, 1) for i in range(2)]
        assert sorted(inside) == [False, True]


def test_action_of_an_agent_yet_to_act_is_not_that_of_the_last_turn(board):
    class Gossip(Quiet):
        def declare(self):
            super().declare()
            self.heard = []

        def before(self, world):
            self.heard.append(world.agents[0].does("zap").tolist())

    gossip = board(Gossip, worlds=2, agents=1)

    gossip.turn("zap")
    gossip.turn("stay")

    assert gossip.rules.heard == [[False, False]] * 2


# Ends.


def test_episode_is_truncated_after_its_turns(board):
    quiet = board(Quiet, agents=2, turns=3)

    outcomes = [quiet.turn() for _ in range(3)]

    assert [outcome.truncated.tolist() for outcome in outcomes] == [
        [[False, False]],
        [[False, False]],
        [[True, True]],
    ]
    assert not any(outcome.terminated.any() for outcome in outcomes)


def test_agent_that_ends_is_terminated_alone(board):
    quiet = board(Quiet, worlds=2, agents=2)

    outcome = quiet.turn(["quit", "stay"], "stay")

    assert outcome.terminated.tolist() == [[True, False], [False, False]]
    assert not outcome.truncated.any()


def test_agent_that_ended_is_not_active_while_the_world_continues(board):
    quiet = board(Quiet, agents=2, turns=5)
    quiet.turn("quit", "stay")

    active = []
    for _ in range(4):
        quiet.turn()
        active.append((bool(quiet.active[0][0]), bool(quiet.active[1][0])))

    assert active == [(False, True)] * 4


def test_agent_that_ended_ends_only_once(board):
    quiet = board(Quiet, agents=2, turns=3)
    quiet.turn("quit", "stay")

    quiet.turn()
    last = quiet.turn()

    assert last.terminated.tolist() == [[False, False]]
    assert last.truncated.tolist() == [[False, True]]


def test_agent_that_ended_gets_no_further_reward(board):
    class Gift(Quiet):
        def act(self, world, me):
            super().act(world, me)
            me.reward += 1

    gift = board(Gift, agents=2)

    first = gift.turn("quit", "stay").rewards
    second = gift.turn().rewards

    assert first.tolist() == [[1, 1]]
    assert second.tolist() == [[0, 1]]


def test_agent_that_is_off_the_map_still_gets_rewards(board):
    class Pension(Quiet):
        def after(self, world):
            for me in world.agents:
                me.reward += 1

    pension = board(Pension, agents=2)
    pension.agents[0].leave(3, where=np.array([True]))

    assert pension.turn().rewards.tolist() == [[1, 1]]


def test_world_closes_when_its_last_agent_has_ended(board):
    quiet = board(Quiet, agents=2)
    quiet.turn("quit", "stay")
    quiet.turn("stay", "quit")

    quiet.turn()
    closing = [bool(quiet.active[i][0]) for i in range(2)]
    quiet.turn()

    assert closing == [False, False]
    assert [bool(quiet.active[i][0]) for i in range(2)] == [True, True]


def test_the_end_of_a_world_terminates_all_agents(board):
    quiet = board(Quiet, worlds=2, agents=2)

    outcome = quiet.turn("stay", ["finish", "stay"])

    assert outcome.terminated.tolist() == [[True, True], [False, False]]
    assert not outcome.truncated.any()


def test_an_end_in_the_last_turn_is_terminated_and_not_truncated(board):
    quiet = board(Quiet, agents=2, turns=1)

    outcome = quiet.turn("quit", "stay")

    assert outcome.terminated.tolist() == [[True, False]]
    assert outcome.truncated.tolist() == [[False, True]]


def test_agent_that_is_off_the_map_is_truncated_with_its_world(board):
    quiet = board(Quiet, agents=2, turns=2)
    quiet.agents[0].leave(9, where=np.array([True]))
    quiet.turn()

    assert quiet.turn().truncated.tolist() == [[True, True]]


# Closing turns.


def test_no_agent_is_active_in_a_closing_turn(board):
    quiet = board(Quiet, worlds=2, agents=2, turns=2)
    quiet.turn()
    quiet.turn()

    quiet.turn()

    assert not quiet.active[0].any()
    assert not quiet.active[1].any()


def test_closing_turn_has_no_rewards(board):
    class Gift(Quiet):
        scored = True

        def before(self, world):
            for me in world.agents:
                me.reward += 1

        def after(self, world):
            for me in world.agents:
                me.reward += 1
                me.score += 1
                me.zaps += 1

    gift = board(Gift, worlds=2, agents=2)
    gift.turn(["finish", "stay"], "stay")

    closing = gift.turn("zap", "zap")

    assert closing.rewards.tolist() == [[0, 0], [2, 2]]
    assert closing.scores.tolist() == [[0, 0], [1, 1]]
    assert closing.counts["zaps"][0].tolist() == [0, 0]
    assert not (closing.terminated | closing.truncated).any()


@pytest.mark.parametrize("others", [0, 1], ids=["alone", "beside a world that plays"])
def test_closing_observation_is_the_last_state_of_the_episode(board, others):
    arena = board(Arena, worlds=1 + others, agents=2)
    for _ in range(4):
        arena.turn("right", "down")
    arena.turn(["finish", "stay"][: 1 + others], "zap")
    arena.look((0, 1))
    last = [{k: v[0].copy() for k, v in arena.seen[i].items()} for i in range(2)]

    arena.turn("up", "left")

    for i in range(2):
        for name, part in arena.seen[i].items():
            assert np.array_equal(part[0], last[i][name])


def test_closing_observation_shows_what_the_last_action_did(board):
    quiet = board(Quiet, agents=1, turns=1)
    quiet.place(0, 2, 3, facing=0)
    quiet.world.fill(quiet.rules.rock, quiet.mask((0, 3)))

    quiet.turn("up")
    quiet.turn("stay")

    rock = quiet.engine.agents[0].parts["view"].labels.index("rock")
    assert np.argwhere(quiet.seen[0]["view"][0, rock]).tolist() == [[1, 1]]


def test_nothing_moves_in_a_closing_world(board):
    arena = board(Arena, worlds=2, agents=2)
    arena.turn(["finish", "stay"], "stay")
    before = state(arena, world=0)

    for phase in arena.engine.begin_turn():
        after_begin = state(arena, world=0)
        arena.engine.act(phase, np.full((2, 2), ACTIONS.index("right")))
        after_act = state(arena, world=0)

    assert changed(before, after_begin) == []
    assert changed(before, after_act) == []


def test_actions_of_inactive_agents_are_ignored(board):
    quiet = board(Quiet, worlds=2, agents=2, order="fixed")
    quiet.turn(["finish", "stay"], "stay")  # world 0 closes next
    quiet.agents[1].leave(5, where=np.array([False, True]))
    quiet.engine.begin_turn()
    stay = ACTIONS.index("stay")

    quiet.engine.act((0, 1), np.array([[999, -1], [stay, 999]]))

    assert quiet.engine.end_turn().rewards.tolist() == [[0, 0], [0, 0]]


def test_world_plays_again_after_its_closing_turn(board):
    quiet = board(Quiet, worlds=2, agents=2, turns=2)
    for _ in range(3):
        quiet.turn()

    quiet.turn()

    assert quiet.active[0].all()
    assert quiet.world.episode.tolist() == [1, 1]
    assert quiet.world.turn.tolist() == [1, 1]


def test_worlds_end_and_start_independently(board):
    quiet = board(Quiet, worlds=3, agents=1, turns=4)

    active = []
    for turn in range(8):
        quiet.turn(["finish" if turn == 0 else "stay", "stay", "stay"])
        active.append(quiet.active[0].astype(int).tolist())

    assert np.array(active).T.tolist() == [
        [1, 0, 1, 1, 1, 1, 0, 1],
        [1, 1, 1, 1, 0, 1, 1, 1],
        [1, 1, 1, 1, 0, 1, 1, 1],
    ]


def test_closing_world_does_not_disturb_one_that_plays(board):
    beside, alone = board(Arena, worlds=2, agents=2), board(Arena, worlds=1, agents=2)
    ends = [turn in (3, 9, 11) for turn in range(30)]

    for end in ends:
        beside.turn(["right", "finish" if end else "right"], "zap")
        alone.turn("right", "zap")

    assert beside.world.episode.tolist() == [0, 3]
    assert changed(state(beside, world=0), state(alone, world=0)) == []


@pytest.mark.shows("D11")
def test_nothing_of_the_old_episode_remains_after_a_reset(board):
    def second_episode(first_actions):
        arena = board(Arena, agents=3, turns=20, order="fixed")
        for turn in range(20):
            arena.turn(*first_actions[turn % len(first_actions)])
        arena.turn()  # closing
        return state(arena)

    calm = second_episode([("stay", "stay", "stay")])
    wild = second_episode([("zap", "right", "up"), ("left", "zap", "turn_left")])

    assert changed(calm, wild) == []


@pytest.mark.shows("D11")
def test_second_episode_plays_the_same_after_any_first_one(board):
    said = []
    for seed in (1, 2):
        arena = board(Arena, agents=3, turns=20, order="fixed")
        for _ in range(19):
            arena.turn(*(("zap", "up", "left") if seed == 1 else ("stay",) * 3))
        arena.turn(*("stay",) * 3)
        arena.turn(*("zap" if seed == 1 else "stay",) * 3)  # closing
        said.append(play_randomly(arena, 60))

    assert differences(*said) == []


@pytest.mark.shows("D11")
def test_agents_that_ended_or_left_are_back_after_a_reset(board):
    quiet = board(Quiet, agents=3, turns=2)
    quiet.agents[0].leave(50, where=np.array([True]))
    quiet.turn("stay", "quit", "stay")
    quiet.turn()
    quiet.turn()

    quiet.turn()

    assert [bool(quiet.active[i][0]) for i in range(3)] == [True] * 3


@pytest.mark.shows("D11")
def test_things_of_the_old_episode_are_gone_after_a_reset(board):
    quiet = board(Quiet, worlds=2, agents=1)
    quiet.world.fill(quiet.rules.coin, quiet.mask((0, 0), (4, 6)))
    quiet.world.fill(quiet.rules.flash, quiet.mask((0, 1)))
    quiet.turn(["finish", "stay"])

    quiet.turn()

    assert quiet.world.count(quiet.rules.coin).tolist() == [0, 2]
    assert quiet.world.count(quiet.rules.flash)[0] == 0


def test_episodes_of_one_world_differ(board):
    arena = board(Arena, agents=1, turns=5)

    episodes = []
    for _ in range(2):
        played = [arena.turn() for _ in range(5)]
        episodes.append(state(arena))
        played.append(arena.turn())

    assert "layers" in changed(*episodes)


# Worlds, snapshots, facts.


@pytest.mark.parametrize("acting", ["simultaneous", "in_turn"])
@pytest.mark.parametrize("world", [0, 5, 15])
def test_world_of_many_plays_like_the_same_world_alone(board, world, acting):
    settings = {"agents": 3, "turns": 25, "acting": acting, "seed": 3}
    many = play_randomly(board(Arena, worlds=16, **settings), 80)

    alone = board(Arena, worlds=1, first_world=world, **settings)

    said = play_randomly(alone, 80, first_world=world)
    assert differences(many, said, slice(world, world + 1)) == []


def test_worlds_differ_from_each_other(board):
    said = play_randomly(board(Arena, worlds=8, agents=2, turns=25), 10)

    last = said[-1]["self 0"]
    assert len({row.tobytes() for row in last}) == 8


def test_seeds_give_different_games(board):
    one = play_randomly(board(Arena, agents=2, seed=1), 20)
    other = play_randomly(board(Arena, agents=2, seed=2), 20)

    assert differences(one, other)


@pytest.mark.parametrize("where", ["same game", "new game"])
def test_restoring_a_snapshot_repeats_everything(board, where):
    arena = board(Arena, worlds=4, agents=3, turns=25)
    play_randomly(arena, 33)
    kept = arena.engine.snapshot()
    first = play_randomly(arena, 100, seed=1)
    end, frames = arena.engine.snapshot(), [arena.engine.render(w) for w in range(4)]
    if where == "new game":
        arena = board(Arena, worlds=4, agents=3, turns=25)

    arena.engine.restore(kept)
    again = play_randomly(arena, 100, seed=1)

    assert differences(first, again) == []
    assert changed(end, arena.engine.snapshot()) == []
    assert np.array_equal([arena.engine.render(w) for w in range(4)], frames)


def test_restored_game_has_the_observations_of_its_snapshot(board):
    arena = board(Arena, worlds=2, agents=3)
    play_randomly(arena, 8)
    kept, frame, shown = arena.engine.snapshot(), arena.engine.render(1), arena.show(1)
    play_randomly(arena, 5, seed=1)

    arena.engine.restore(kept)

    assert np.array_equal(arena.engine.render(1), frame)
    assert arena.show(1) == shown
    assert changed(kept, arena.engine.snapshot()) == []


def test_snapshot_can_be_taken_before_a_closing_turn(board):
    arena = board(Arena, worlds=2, agents=2, turns=4)
    for _ in range(4):
        arena.turn()
    kept = arena.engine.snapshot()
    first = play_randomly(arena, 10)

    arena.engine.restore(kept)

    assert differences(first, play_randomly(arena, 10)) == []


def test_snapshot_does_not_change_with_the_game(board):
    arena = board(Arena, worlds=2, agents=2)
    kept = arena.engine.snapshot()
    copies = {name: array.copy() for name, array in kept.items()}

    play_randomly(arena, 5)

    assert changed(copies, kept) == []


def test_snapshot_has_the_world_axis_first_everywhere(board):
    kept = board(Arena, worlds=3, agents=2).engine.snapshot()

    assert {len(array) for array in kept.values()} == {3}


def test_snapshot_has_every_declared_column(board):
    kept = board(Arena, agents=2).engine.snapshot()

    assert {"dust", "luck", "season", "cell", "facing", "layers"} <= set(kept)


def test_grid_games_can_be_snapshot(board):
    assert board(Arena).engine.can_snapshot


def test_facts_include_the_position_of_every_agent(board):
    quiet = board(Quiet, worlds=2, agents=2)
    quiet.place(0, 0, 6)
    quiet.place(1, 4, 2)
    quiet.agents[1].leave(3, where=np.array([False, True]))

    positions = quiet.engine.facts()["position"]

    assert positions.tolist() == [[[0, 6], [4, 2]], [[0, 6], [-1, -1]]]


def test_facts_have_the_columns_of_agents_and_worlds(board):
    arena = board(Arena, worlds=2, agents=3)
    arena.agents[1].luck = np.array([4, 5])
    arena.agents[2].facing = 3

    facts = arena.engine.facts()

    assert facts["luck"].tolist() == [[0, 4, 0], [0, 5, 0]]
    assert facts["facing"][:, 2].tolist() == [3, 3]
    assert facts["season"].tolist() == [3, 3]
    assert facts["turn"].tolist() == [0, 0]


def test_facts_do_not_change_afterwards(board):
    quiet = board(Quiet, agents=1)
    quiet.place(0, 2, 2)
    facts = quiet.engine.facts()

    quiet.turn("right")

    assert facts["position"].tolist() == [[[2, 2]]]


def test_turns_and_episodes_are_counted(board):
    quiet = board(Quiet, agents=1, turns=3)

    counted = []
    for _ in range(9):
        quiet.engine.begin_turn()
        counted.append((int(quiet.world.episode[0]), int(quiet.world.turn[0])))
        quiet.engine.end_turn()

    assert counted == [
        *((0, 1), (0, 2), (0, 3), (0, 3)),
        *((1, 1), (1, 2), (1, 3), (1, 3)),
        (2, 1),
    ]


def test_text_of_a_world_has_every_agent_once(board):
    shown = board(Quiet, agents=5).engine.show()

    assert sorted(re.findall(r"\d", shown)) == list("01234")
