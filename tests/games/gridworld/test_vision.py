"""What agents see: windows against a slow and plain reference, and vectors."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.games.gridworld import (
    Body,
    GridGame,
    Kind,
    PerAgent,
    PerWorld,
    Vector,
    Window,
)
from rookery.games.gridworld.names import AGENTS

UP, RIGHT, DOWN, LEFT = range(4)
FACINGS = {"up": UP, "right": RIGHT, "down": DOWN, "left": LEFT}
WINDOWS = {
    "fixed": Window(radius=2),
    "fixed, uneven": Window(ahead=3, behind=1, sides=2),
    "rotated": Window(radius=2, rotated=True),
    "rotated, uneven": Window(ahead=4, behind=1, sides=2, rotated=True),
    "only ahead": Window(ahead=5, rotated=True),
    "own cell": Window(radius=0),
    "larger than the map": Window(radius=9, rotated=True),
}


class Forest(GridGame):
    """Kinds on layers that take turns, so that channels of a layer are not neighbours."""

    map = """
......P
.P.P...
......P
..P....
......P"""

    def declare(self):
        self.rock = Kind(solid=True, layer="ground")
        self.fern = Kind(layer="plants")
        self.mud = Kind(layer="ground")
        self.ghost = Kind(layer="plants", seen=False)
        self.moss = Kind(layer="ground")
        self.deer = Body(("stay",), sees=self.eyes())
        self.elk = Body(("stay",), sees={"near": Window(radius=1)})

    def eyes(self):
        return dict(WINDOWS)

    def roster(self):
        return [self.deer, self.elk, self.deer]

    def start(self, world):
        world.sprinkle(self.rock, self.mud, self.moss, chance=0.4)
        for kind in (self.fern, self.ghost):
            there = np.zeros((world.worlds, world.layout.cells), bool)
            inside = world.random.bits(len(world.layout.inside)) % 3 == 0
            there[:, world.layout.inside] = inside
            world.fill(kind, there & ~world.mask(self.fern))


class Herd(Forest):
    """Everybody sees numbers."""

    def declare(self):
        self.warmth = PerAgent(default=2.5)
        self.pair = PerAgent(np.int8, (2,))
        self.season = PerWorld(np.int64, default=4)
        self.wind = PerWorld(np.bool_, (2,))
        super().declare()

    def eyes(self):
        return {
            "mine": Vector("warmth", "pair"),
            "ours": Vector("season", "wind"),
            "both": Vector("season", "warmth", "facing"),
            "view": Window(radius=1),
        }


def kinds_at(board, world, row, column):
    """Return the names of everything in a cell; nothing lies beyond the map."""
    layout = board.engine.layout
    if not (0 <= row < layout.height and 0 <= column < layout.width):
        return set()
    cell = board.cell(row, column)
    names = {
        layout.kinds[board.world.layer(name)[world, cell]].name
        for name in layout.layers
        if name != AGENTS
    }
    standing = [
        me.body.name for me in board.agents if board.spot(me.number, world) == (row, column)
    ]
    return names | set(standing)


def from_agent(facing, ahead, right):
    """Return how far down and right a cell is that lies so far ahead and to the right."""
    return {
        UP: (-ahead, right),
        RIGHT: (right, ahead),
        DOWN: (ahead, -right),
        LEFT: (-right, -ahead),
    }[facing]


def reference(board, agent, world, window, labels):
    """Look cell by cell."""
    row, column = board.spot(agent, world)
    facing = int(board.agents[agent].facing[world]) if window.rotated else UP
    ahead, behind, sides = window.reach
    view = np.zeros((len(labels), ahead + behind + 1, 2 * sides + 1), np.uint8)
    for i in range(ahead + behind + 1):
        for j in range(2 * sides + 1):
            down, right = from_agent(facing, ahead - i, j - sides)
            there = kinds_at(board, world, row + down, column + right)
            view[:, i, j] = [label in there for label in labels]
    return view


@pytest.fixture
def forest(board):
    return board(Forest, worlds=3, seed=1)


@pytest.fixture
def herd(board):
    return board(Herd, worlds=2, seed=1)


@pytest.mark.parametrize("facing", FACINGS.values(), ids=FACINGS)
@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("agent", [0, 2])
def test_window_agrees_with_a_plain_reference(forest, agent, name, facing):
    forest.agents[agent].facing = facing

    forest.look((0, 1, 2))

    part = forest.engine.agents[agent].parts[name]
    expected = [
        reference(forest, agent, world, WINDOWS[name], part.labels) for world in range(3)
    ]
    seen = forest.seen[agent][name]
    assert seen.dtype == np.uint8
    assert seen.shape == (3, *part.shape)
    assert np.array_equal(seen, expected)


def test_facings_can_differ_from_world_to_world(forest):
    forest.agents[0].facing = np.array([UP, RIGHT, LEFT])

    forest.look((0,))

    window = WINDOWS["rotated, uneven"]
    labels = forest.engine.agents[0].parts["rotated, uneven"].labels
    expected = [reference(forest, 0, world, window, labels) for world in range(3)]
    assert np.array_equal(forest.seen[0]["rotated, uneven"], expected)


@pytest.mark.parametrize("facing", FACINGS.values(), ids=FACINGS)
def test_thing_right_ahead_is_above_the_middle_of_a_rotated_window(forest, facing):
    forest.place(0, 2, 3, facing)
    for name in ("ground", "plants"):
        forest.world.layer(name)[...] = 0
    forest.world.put(forest.rules.fern, forest.agents[0].front)

    forest.look((0,))

    fern = forest.engine.agents[0].parts["rotated"].labels.index("fern")
    assert np.argwhere(forest.seen[0]["rotated"][0, fern]).tolist() == [[1, 2]]


def test_fixed_window_does_not_turn(forest):
    views = []
    for facing in FACINGS.values():
        forest.agents[0].facing = facing
        forest.look((0,))
        views.append(forest.seen[0]["fixed"].tobytes())

    assert len(set(views)) == 1


def test_agent_sees_itself_in_the_middle(forest):
    forest.look((0,))

    deer = forest.engine.agents[0].parts["own cell"].labels.index("deer")
    assert (forest.seen[0]["own cell"][:, deer, 0, 0] == 1).all()


def test_nothing_is_seen_beyond_the_map(forest):
    forest.place(0, 0, 0, UP)

    forest.look((0,))

    assert not forest.seen[0]["fixed"][:, :, :2].any()
    assert not forest.seen[0]["fixed"][:, :, :, :2].any()


def test_hidden_kind_has_no_channel(forest):
    assert "ghost" not in forest.engine.agents[0].parts["fixed"].labels


def test_observations_are_in_the_order_of_the_agents_asked_for(forest):
    one = forest.engine.observe((2, 0, 1))
    other = forest.engine.observe((0, 1, 2))

    assert list(one.parts[2]) == ["near"]
    assert np.array_equal(one.parts[0]["fixed"], other.parts[2]["fixed"])
    assert np.array_equal(one.parts[1]["fixed"], other.parts[0]["fixed"])


def test_different_bodies_have_their_own_windows(forest):
    forest.look((0, 1, 2))

    labels = forest.engine.agents[1].parts["near"].labels
    expected = [reference(forest, 1, world, Window(radius=1), labels) for world in range(3)]
    assert list(forest.seen[1]) == ["near"]
    assert np.array_equal(forest.seen[1]["near"], expected)


@pytest.mark.parametrize("part", ["fixed", "rotated, uneven"])
def test_agent_that_is_off_the_map_observes_zeros(forest, part):
    forest.agents[0].leave(5, where=np.array([True, False, True]))

    forest.look((0, 1, 2))

    seen = forest.seen[0][part].reshape(3, -1).any(axis=1)
    assert seen.tolist() == [False, True, False]


def test_absence_of_one_agent_does_not_change_the_observation_of_a_distant_one(forest):
    forest.look((0, 1, 2))
    before = forest.seen[2]["own cell"].copy()

    forest.agents[0].leave(5, where=np.array([True, False, True]))
    forest.look((0, 1, 2))

    assert np.array_equal(forest.seen[2]["own cell"], before)


def test_observations_do_not_change_afterwards(forest):
    forest.look((0, 1, 2))
    seen = forest.seen[0]["fixed"]
    kept = seen.copy()

    forest.world.layer("ground")[...] = forest.rules.rock.id

    assert np.array_equal(seen, kept)


def test_vector_shows_columns_of_the_agent_in_their_order(herd):
    herd.agents[0].warmth = np.array([1, 2])
    herd.agents[0].pair = np.array([[3, 4], [5, 6]])
    herd.look((0, 1, 2))

    assert herd.seen[0]["mine"].tolist() == [[1, 3, 4], [2, 5, 6]]
    assert herd.seen[2]["mine"].tolist() == [[2.5, 0, 0], [2.5, 0, 0]]
    assert herd.seen[0]["mine"].dtype == np.float32


def test_vector_shows_columns_of_the_world_to_every_agent(herd):
    herd.world.season = np.array([7, 8])
    herd.world.wind = np.array([[True, False], [True, True]])
    herd.look((0, 1, 2))

    assert herd.seen[0]["ours"].tolist() == [[7, 1, 0], [8, 1, 1]]
    assert np.array_equal(herd.seen[2]["ours"], herd.seen[0]["ours"])


def test_vector_mixes_columns_of_agent_world_and_engine(herd):
    herd.agents[0].facing = np.array([3, 1])
    herd.look((0, 1, 2))

    assert herd.seen[0]["both"].tolist() == [[4, 2.5, 3], [4, 2.5, 1]]


def test_vector_of_an_agent_that_is_off_the_map_is_zero(herd):
    herd.agents[0].leave(5, where=np.array([True, False]))

    herd.look((0, 1, 2))

    assert herd.seen[0]["mine"].tolist() == [[0, 0, 0], [2.5, 0, 0]]
    assert herd.seen[0]["ours"].tolist() == [[0, 0, 0], [4, 0, 0]]
