"""One agent: turning, moving, beams, leaving and coming back."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.errors import ConfigError
from rookery.games.gridworld import (
    MOVES,
    STEPS,
    TURNS,
    Body,
    GridGame,
    Kind,
    PerAgent,
    Window,
)

UP, RIGHT, DOWN, LEFT = range(4)
FACINGS = {"up": UP, "right": RIGHT, "down": DOWN, "left": LEFT}
AWAY = {UP: (-1, 0), RIGHT: (0, 1), DOWN: (1, 0), LEFT: (0, -1)}
SEES = {"view": Window(radius=1)}

# What each action does in each facing: the way it moves (or None), and the new facing.
TABLE = {
    "up": [(UP, UP)] * 4,
    "right": [(RIGHT, RIGHT)] * 4,
    "down": [(DOWN, DOWN)] * 4,
    "left": [(LEFT, LEFT)] * 4,
    "forward": [(UP, UP), (RIGHT, RIGHT), (DOWN, DOWN), (LEFT, LEFT)],
    "step_right": [(RIGHT, UP), (DOWN, RIGHT), (LEFT, DOWN), (UP, LEFT)],
    "backward": [(DOWN, UP), (LEFT, RIGHT), (UP, DOWN), (RIGHT, LEFT)],
    "step_left": [(LEFT, UP), (UP, RIGHT), (RIGHT, DOWN), (DOWN, LEFT)],
    "turn_right": [(None, RIGHT), (None, DOWN), (None, LEFT), (None, UP)],
    "turn_left": [(None, LEFT), (None, UP), (None, RIGHT), (None, DOWN)],
    "stay": [(None, UP), (None, RIGHT), (None, DOWN), (None, LEFT)],
}


class Yard(GridGame):
    """Agents that move, shoot and send each other out."""

    map = """
........
...PPP..
........
........"""

    def declare(self):
        self.wall = Kind(solid=True, layer="walls", char="#")
        self.ray = Kind(layer="rays", lifetime=2, char="*")
        self.heat = Kind(value=1.0, layer="heat")
        self.dog = Body((*MOVES, *STEPS, *TURNS, "zap", "stay"), SEES)

    def act(self, world, me):
        me.move()


class Speakers(Yard):
    """Moves and says something in one action; either factor may come first."""

    def declare(self):
        super().declare()
        del self.dog
        self.talker = Body(((*MOVES, *TURNS, "stay"), ("quiet", "call")), SEES)
        self.caller = Body((("quiet", "call"), (*MOVES, *TURNS, "stay")), SEES)

    def roster(self):
        return [self.talker, self.caller]


class Unlike(Yard):
    """Only one of two bodies can zap."""

    def declare(self):
        super().declare()
        self.cat = Body(("stay", "purr"), SEES)

    def roster(self):
        return [self.dog, self.cat]


class Exile(Yard):
    """Whoever zaps is out, for as many turns as `term` says."""

    def declare(self):
        super().declare()
        self.term = 25

    def act(self, world, me):
        me.move()
        me.leave(self.term, where=me.does("zap"))


@pytest.fixture
def yard(board):
    return board(Yard, worlds=2, agents=2)


@pytest.fixture
def alone(board):
    return board(Yard, worlds=2, agents=1)


def kinds_on(board, kind, world=0):
    return np.argwhere(board.on_map(board.world.mask(kind), world)).tolist()


def shoot(board, agent, length, width=1, where=None):
    """Return which agents were hit, as {number: [per world]}."""
    me = board.agents[agent]
    hits = me.beam(board.rules.ray, length, width, where)
    return {other.number: hit.tolist() for other, hit in hits}


# Turning and aiming.


@pytest.mark.parametrize("facing", FACINGS.values(), ids=FACINGS)
@pytest.mark.parametrize("action", TABLE)
def test_action_turns_and_aims_as_the_table_says(alone, action, facing):
    alone.place(0, 2, 4, facing)

    me = alone.choose(0, action)

    way, new_facing = TABLE[action][facing]
    down, right = AWAY[way] if way is not None else (0, 0)
    assert me.facing.tolist() == [new_facing] * 2
    assert me.target.tolist() == [alone.cell(2 + down, 4 + right)] * 2


@pytest.mark.parametrize("agent", [0, 1], ids=["move first", "word first"])
@pytest.mark.parametrize("word", ["quiet", "call"])
@pytest.mark.parametrize("move", ["up", "right", "turn_right", "turn_left", "stay"])
def test_product_action_turns_and_aims_like_its_move_alone(board, agent, word, move):
    speakers = board(Speakers, worlds=2, agents=2)
    speakers.place(agent, 2, 4, facing=DOWN)

    me = speakers.choose(agent, f"{move}+{word}" if agent == 0 else f"{word}+{move}")

    way, new_facing = TABLE[move][DOWN]
    down, right = AWAY[way] if way is not None else (0, 0)
    assert me.facing.tolist() == [new_facing] * 2
    assert me.target.tolist() == [speakers.cell(2 + down, 4 + right)] * 2


def test_does_is_true_for_the_action_that_was_chosen(alone):
    me = alone.choose(0, ["zap", "up"])

    assert me.does("zap").tolist() == [True, False]
    assert me.does("up").tolist() == [False, True]
    assert me.does("stay").tolist() == [False, False]


def test_does_finds_the_factors_of_a_product_action(board):
    speakers = board(Speakers, worlds=3, agents=2)

    me = speakers.choose(0, ["up+call", "up+quiet", "stay+call"])

    assert me.does("call").tolist() == [True, False, True]
    assert me.does("up").tolist() == [True, True, False]


def test_does_is_false_where_the_agent_is_off_the_map(alone):
    alone.agents[0].leave(3, where=np.array([True, False]))

    me = alone.choose(0, "zap")

    assert me.does("zap").tolist() == [False, True]


def test_does_is_false_for_a_body_that_lacks_the_action(board):
    unlike = board(Unlike, worlds=2, agents=2)

    cat = unlike.choose(1, "purr")

    assert cat.does("zap").tolist() == [False, False]


def test_does_of_an_unknown_action_is_an_error_with_the_closest(alone):
    me = alone.choose(0, "zap")

    with pytest.raises(ConfigError, match=r"'zzap'.*did you mean 'zap'"):
        me.does("zzap")


def test_agent_that_is_off_the_map_has_no_target(alone):
    alone.agents[0].leave(3, where=np.array([True, True]))

    me = alone.choose(0, "up")

    assert me.target.tolist() == me.cell.tolist()


@pytest.mark.parametrize("facing", FACINGS.values(), ids=FACINGS)
def test_front_is_the_cell_the_agent_faces(alone, facing):
    alone.place(0, 2, 4, facing)

    down, right = AWAY[facing]
    assert alone.agents[0].front.tolist() == [alone.cell(2 + down, 4 + right)] * 2


def test_front_of_an_agent_that_is_off_the_map_is_its_own_cell(alone):
    me = alone.agents[0]

    me.leave(3, where=np.array([True, False]))

    assert me.front[0] == me.cell[0]
    assert me.front[1] != me.cell[1]


# Moving.


@pytest.mark.parametrize("way", MOVES)
def test_agent_moves_to_its_target(alone, way):
    alone.place(0, 2, 4)
    me = alone.choose(0, way)

    moved = me.move()

    down, right = AWAY[FACINGS[way]]
    assert moved.tolist() == [True, True]
    assert alone.spot(0) == (2 + down, 4 + right)


def test_agent_is_in_one_cell_only_after_moving(alone):
    alone.place(0, 2, 4)

    alone.choose(0, "up").move()

    assert kinds_on(alone, alone.rules.dog.kind) == [[1, 4]]


def test_wall_stops_an_agent(alone):
    alone.place(0, 2, 4)
    alone.world.fill(alone.rules.wall, alone.mask((2, 5)))
    me = alone.choose(0, "right")

    moved = me.move()

    assert moved.tolist() == [False, False]
    assert alone.spot(0) == (2, 4)


def test_thing_that_is_not_solid_does_not_block(alone):
    alone.place(0, 2, 4)
    alone.world.fill(alone.rules.heat, alone.mask((2, 5)))

    assert alone.choose(0, "right").move().all()


def test_agents_stop_each_other(yard):
    yard.place(0, 2, 4)
    yard.place(1, 2, 5)

    moved = yard.choose(0, "right").move()

    assert moved.tolist() == [False, False]
    assert yard.spot(0) == (2, 4)
    assert yard.spot(1) == (2, 5)


@pytest.mark.parametrize(
    ("row", "column", "way"),
    [(0, 3, "up"), (3, 3, "down"), (1, 0, "left"), (1, 7, "right")],
    ids=["up", "down", "left", "right"],
)
def test_no_agent_leaves_the_map(alone, row, column, way):
    alone.place(0, row, column)

    moved = alone.choose(0, way).move()

    assert not moved.any()
    assert alone.spot(0) == (row, column)


def test_action_that_is_not_a_move_does_not_move_the_agent(alone):
    alone.place(0, 2, 4)

    moved = alone.choose(0, "zap").move()

    assert moved.tolist() == [False, False]
    assert alone.spot(0) == (2, 4)


def test_move_applies_only_where_it_is_asked_to(alone):
    alone.place(0, 2, 4)

    moved = alone.choose(0, "up").move(where=np.array([False, True]))

    assert moved.tolist() == [False, True]
    assert [alone.spot(0, world) for world in range(2)] == [(2, 4), (1, 4)]


def test_agents_move_independently_in_each_world(alone):
    alone.place(0, 2, 4)

    alone.choose(0, ["up", "down"]).move()

    assert [alone.spot(0, world) for world in range(2)] == [(1, 4), (3, 4)]


def test_agent_that_is_off_the_map_does_not_move(alone):
    me = alone.agents[0]
    me.leave(3, where=np.array([True, True]))
    alone.choose(0, "up")

    assert not me.move().any()
    assert not me.present.any()


def test_cell_left_behind_is_free_for_another(yard):
    yard.place(0, 2, 4)
    yard.place(1, 2, 5)
    yard.choose(0, "up").move()

    assert yard.choose(1, "left").move().all()


def test_place_takes_an_agent_from_where_it_is(alone):
    alone.place(0, 2, 4)

    alone.place(0, 0, 0)

    assert kinds_on(alone, alone.rules.dog.kind) == [[0, 0]]


def test_place_applies_only_where_it_is_asked_to(alone):
    alone.place(0, 2, 4)

    alone.agents[0].place(alone.cells((0, 0), (0, 0)), where=np.array([True, False]))

    assert [alone.spot(0, world) for world in range(2)] == [(0, 0), (2, 4)]


# Beams.


def test_beam_leaves_its_kind_in_the_cells_ahead(alone):
    alone.place(0, 2, 1, facing=RIGHT)

    shoot(alone, 0, length=3)

    assert kinds_on(alone, alone.rules.ray) == [[2, 2], [2, 3], [2, 4]]


@pytest.mark.parametrize("facing", FACINGS.values(), ids=FACINGS)
def test_beam_flies_the_way_the_agent_faces(alone, facing):
    alone.place(0, 2, 4, facing)

    shoot(alone, 0, length=1)

    down, right = AWAY[facing]
    assert kinds_on(alone, alone.rules.ray) == [[2 + down, 4 + right]]


def test_beam_stops_at_walls(alone):
    alone.place(0, 2, 1, facing=RIGHT)
    alone.world.fill(alone.rules.wall, alone.mask((2, 4)))

    shoot(alone, 0, length=6)

    assert kinds_on(alone, alone.rules.ray) == [[2, 2], [2, 3]]


def test_beam_stops_at_the_edge_of_the_map(alone):
    alone.place(0, 2, 5, facing=RIGHT)

    shoot(alone, 0, length=20)

    assert kinds_on(alone, alone.rules.ray) == [[2, 6], [2, 7]]


def test_beam_hits_an_agent_within_its_length(yard):
    yard.place(0, 2, 1, facing=RIGHT)
    yard.place(1, 2, 4)

    assert shoot(yard, 0, length=3) == {1: [True, True]}


def test_beam_falls_short_of_an_agent_beyond_its_length(yard):
    yard.place(0, 2, 1, facing=RIGHT)
    yard.place(1, 2, 4)

    assert shoot(yard, 0, length=2) == {1: [False, False]}


def test_beam_does_not_hit_through_walls(yard):
    yard.place(0, 2, 1, facing=RIGHT)
    yard.place(1, 2, 4)
    yard.world.fill(yard.rules.wall, yard.mask((2, 3)))

    assert shoot(yard, 0, length=6) == {1: [False, False]}


def test_beam_hits_the_first_agent_only(board):
    yard = board(Yard, worlds=2, agents=3)
    yard.place(0, 2, 1, facing=RIGHT)
    yard.place(1, 2, 5)
    yard.place(2, 2, 3)

    assert shoot(yard, 0, length=6) == {1: [False, False], 2: [True, True]}


def test_beam_passes_behind_and_beside_without_hitting(board):
    yard = board(Yard, worlds=2, agents=3)
    yard.place(0, 2, 4, facing=RIGHT)
    yard.place(1, 2, 3)
    yard.place(2, 1, 5)

    assert shoot(yard, 0, length=6) == {1: [False, False], 2: [False, False]}


@pytest.mark.parametrize(("width", "rows"), [(1, [2]), (3, [1, 2, 3]), (5, [0, 1, 2, 3])])
def test_beam_has_as_many_lanes_as_it_is_wide(alone, width, rows):
    alone.place(0, 2, 4, facing=RIGHT)

    shoot(alone, 0, length=2, width=width)

    assert kinds_on(alone, alone.rules.ray) == [[row, c] for row in rows for c in (5, 6)]


@pytest.mark.parametrize("facing", FACINGS.values(), ids=FACINGS)
def test_wide_beam_turns_with_the_agent(board, facing):
    class Hall(Yard):
        map = "P........" + "\n........." * 8

    hall = board(Hall, agents=1)
    hall.place(0, 4, 4, facing)

    shoot(hall, 0, length=1, width=3)

    (down, right), (aside, over) = AWAY[facing], AWAY[(facing + 1) % 4]
    lanes = [[4 + down + side * aside, 4 + right + side * over] for side in (-1, 0, 1)]
    assert kinds_on(hall, hall.rules.ray) == sorted(lanes)


def test_wall_beside_the_agent_stops_the_lanes_on_its_side(alone):
    alone.place(0, 2, 4, facing=RIGHT)
    alone.world.fill(alone.rules.wall, alone.mask((1, 4)))

    shoot(alone, 0, length=1, width=5)

    assert kinds_on(alone, alone.rules.ray) == [[2, 5], [3, 5]]


def test_wall_ahead_stops_one_lane_and_not_the_others(alone):
    alone.place(0, 2, 4, facing=RIGHT)
    alone.world.fill(alone.rules.wall, alone.mask((1, 5)))

    shoot(alone, 0, length=2, width=3)

    expected = [[2, 5], [2, 6], [3, 5], [3, 6]]
    assert kinds_on(alone, alone.rules.ray) == expected


def test_every_lane_hits_its_own_first_agent(board):
    yard = board(Yard, worlds=2, agents=3)
    yard.place(0, 2, 1, facing=RIGHT)
    yard.place(1, 1, 3)
    yard.place(2, 3, 5)

    assert shoot(yard, 0, length=4, width=3) == {1: [True, True], 2: [True, True]}


@pytest.mark.parametrize("width", [0, 2, 4])
def test_beam_without_a_middle_lane_is_an_error(alone, width):
    with pytest.raises(ConfigError, match=f"{width}.*odd"):
        shoot(alone, 0, length=2, width=width)


def test_beam_is_shot_only_where_it_is_asked_to(yard):
    yard.place(0, 2, 1, facing=RIGHT)
    yard.place(1, 2, 3)

    hits = shoot(yard, 0, length=3, where=np.array([False, True]))

    assert hits == {1: [False, True]}
    assert kinds_on(yard, yard.rules.ray, world=0) == []
    assert kinds_on(yard, yard.rules.ray, world=1) == [[2, 2]]


def test_agent_that_is_off_the_map_does_not_shoot(yard):
    yard.place(1, 2, 3)
    yard.agents[0].leave(3, where=np.array([True, True]))

    assert shoot(yard, 0, length=8, width=5) == {1: [False, False]}
    assert kinds_on(yard, yard.rules.ray) == []


def test_agent_that_is_off_the_map_is_not_hit(yard):
    yard.place(0, 0, 0, facing=UP)
    yard.agents[1].leave(3, where=np.array([True, True]))

    assert shoot(yard, 0, length=8, width=3) == {1: [False, False]}


def test_beam_is_shot_even_if_its_hits_are_not_used(alone):
    alone.place(0, 2, 1, facing=RIGHT)

    alone.agents[0].beam(alone.rules.ray, 2)

    assert kinds_on(alone, alone.rules.ray) == [[2, 2], [2, 3]]


def test_beam_lasts_for_the_lifetime_of_its_kind(alone):
    alone.engine.begin_turn()
    shoot(alone, 0, length=1)
    alone.engine.end_turn()

    alone.turn()
    after_one = alone.world.count(alone.rules.ray).tolist()
    alone.turn()
    after_two = alone.world.count(alone.rules.ray).tolist()

    assert after_one == [1, 1]
    assert after_two == [0, 0]


# Leaving and coming back.


@pytest.mark.parametrize("term", [0, 1, 2, 25])
def test_agent_is_off_the_map_for_exactly_the_turns_it_left_for(board, term):
    exile = board(Exile, agents=2)
    exile.rules.term = term

    active = []
    exile.turn("zap", "stay")
    for _ in range(term + 3):
        exile.turn()
        active.append(bool(exile.active[0][0]))

    assert active == [False] * term + [True] * 3


def test_agent_is_active_in_the_turn_it_leaves_in(board):
    exile = board(Exile, agents=1)

    exile.turn("zap")

    assert exile.active[0].tolist() == [True]


def test_agent_that_left_is_on_no_cell(board):
    exile = board(Exile, agents=1)

    exile.turn("zap")

    assert not exile.agents[0].present.any()
    assert kinds_on(exile, exile.rules.dog.kind) == []
    assert exile.spot(0) == (-1, -1)


def test_agent_that_left_in_the_same_action_does_not_move(alone):
    alone.place(0, 2, 4)
    me = alone.choose(0, "up")
    me.leave(3, where=np.array([True, False]))

    moved = me.move()

    assert moved.tolist() == [False, True]
    assert me.present.tolist() == [False, True]


def test_agent_leaves_only_where_it_is_asked_to(board):
    exile = board(Exile, worlds=2, agents=1)

    exile.turn(["zap", "stay"])
    exile.turn()

    assert exile.active[0].tolist() == [False, True]


def test_leaving_again_while_off_the_map_changes_nothing(board):
    exile = board(Exile, agents=1)
    exile.rules.term = 2
    exile.turn("zap")
    exile.agents[0].leave(50, where=np.array([True]))

    exile.turn()
    exile.turn()
    exile.turn()

    assert exile.active[0].tolist() == [True]


def test_agent_returns_on_a_start_spot(board):
    exile = board(Exile, worlds=8, agents=1)
    exile.rules.term = 1
    exile.turn("zap")
    exile.turn()

    exile.turn()

    assert {exile.spot(0, world) for world in range(8)} <= {(1, 3), (1, 4), (1, 5)}


def test_agent_returns_on_a_free_start_spot(board):
    exile = board(Exile, worlds=8, agents=3)
    exile.rules.term = 0
    others = exile.engine.facts()["position"][:, 1:].tolist()

    exile.turn("zap", "stay", "stay")
    exile.turn()

    facts = exile.engine.facts()["position"]
    assert facts[:, 1:].tolist() == others
    assert all(len({tuple(spot) for spot in world}) == 3 for world in facts.tolist())


def test_agent_without_a_free_start_spot_waits_for_one(board):
    class Narrow(Exile):
        map = "P.."

    narrow = board(Narrow, agents=1)
    narrow.rules.term = 0
    narrow.turn("zap")
    narrow.world.fill(narrow.rules.wall, narrow.mask((0, 0)))
    narrow.turn()
    waiting = bool(narrow.active[0][0])
    narrow.world.remove(narrow.rules.wall, narrow.mask((0, 0)))
    narrow.turn()

    assert not waiting
    assert narrow.active[0].tolist() == [True]


def test_agent_returns_onto_things_only_if_there_is_no_empty_spot(board):
    class Narrow(Exile):
        map = "PP"

    narrow = board(Narrow, worlds=2, agents=1)
    narrow.rules.term = 0
    narrow.turn("zap")
    narrow.world.fill(narrow.rules.heat, narrow.mask((0, 0)))
    narrow.world.put(
        narrow.rules.heat, narrow.cells((0, 1), (0, 1)), np.array([False, True])
    )

    narrow.turn()

    assert narrow.spot(0, 0) == (0, 1)
    assert narrow.active[0].tolist() == [True, True]


def test_agent_can_join_an_episode_late(board):
    class Late(Yard):
        def start(self, world):
            me = world.agents[0]
            me.place(np.full(world.worlds, world.layout.inside[0]))
            me.leave(3, where=np.ones(world.worlds, bool))

    late = board(Late, agents=2)
    active = []
    for _ in range(5):
        late.turn()
        active.append(bool(late.active[0][0]))

    assert active == [False, False, False, True, True]


def test_columns_of_an_agent_survive_its_absence(board):
    class Rich(Exile):
        def declare(self):
            super().declare()
            self.purse = PerAgent()

    rich = board(Rich, agents=1)
    rich.rules.term = 2
    rich.agents[0].purse = 7
    rich.turn("zap")

    for _ in range(4):
        rich.turn()

    assert rich.agents[0].purse.tolist() == [7]


def test_end_takes_an_agent_off_the_map_permanently(yard):
    yard.agents[0].end(where=np.array([True, False]))

    for _ in range(5):
        yard.turn()

    assert yard.active[0].tolist() == [False, True]
    assert yard.active[1].tolist() == [True, True]


def test_agent_that_is_off_the_map_can_be_ended(yard):
    me = yard.agents[0]
    me.leave(1, where=np.array([True, True]))

    me.end(where=np.array([True, False]))
    for _ in range(4):
        yard.turn()

    assert yard.active[0].tolist() == [False, True]
