"""The compiled loops against plain numpy, bit by bit, on random worlds."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.errors import ConfigError
from rookery.games.gridworld import MOVES, STEPS, TURNS, Body, GridGame, Kind, Window

WORLDS = pytest.mark.parametrize("worlds", [1, 5])
SEEDS = pytest.mark.parametrize("seed", range(4))


class Thicket(GridGame):
    """Kinds with odd values on several layers, two of which have lifetimes."""

    map = """
..P....P
..P.P...
P...P..P
......P."""

    def declare(self):
        self.rock = Kind(solid=True, value=-1.7, layer="ground")
        self.leaf = Kind(value=0.1, layer="plants", lifetime=3)
        self.seed = Kind(value=0.3, layer="plants")
        self.mist = Kind(value=1e-7, layer="air", lifetime=1)
        self.pole = Kind(solid=True, layer="air", seen=False)
        self.fox = Body((*MOVES, "stay"), sees={"view": Window(radius=2)})
        actions = (*STEPS, *TURNS, "zap")
        self.owl = Body(actions, sees={"view": Window(ahead=3, sides=1, rotated=True)})

    def roster(self):
        return [self.fox, self.owl, self.fox]

    @property
    def things(self):
        return (self.rock, self.leaf, self.seed, self.mist, self.pole)


@pytest.fixture
def thicket(board, worlds, seed):
    """Return worlds with random things, agents, facings and turns."""
    board = board(Thicket, worlds=worlds, seed=seed, agents=3)
    board.random = np.random.default_rng(seed)
    world = board.world
    world.turn[:] = board.random.integers(1, 5, worlds)
    for kind in board.rules.things:
        world.fill(kind, board.random.random((worlds, world.layout.cells)) < 0.15)
    for me in world.agents:
        me.facing[:] = board.random.integers(0, 4, worlds)
    world.agents[2].leave(3, where=board.random.random(worlds) < 0.5)
    return board


def any_cells(thicket):
    """Return random cells of the map and its margin, one per world."""
    return thicket.random.integers(0, thicket.world.layout.cells, thicket.world.worlds)


def contents(world, cells):
    """Return the ids of the kinds in cells, (layers, worlds)."""
    return world.layers[:, np.arange(world.worlds), cells]


@SEEDS
@WORLDS
def test_value_adds_the_layers_from_the_lowest(thicket):
    world, cells = thicket.world, any_cells(thicket)

    expected = np.zeros(world.worlds, np.float32)
    for layer in world.layout.values[contents(world, cells)]:
        expected += layer

    assert world.value(cells).tobytes() == expected.tobytes()


@SEEDS
@WORLDS
def test_solid_and_has_look_into_the_cells(thicket):
    world, cells, mist = thicket.world, any_cells(thicket), thicket.rules.mist

    kinds = contents(world, cells)

    assert np.array_equal(world.solid(cells), world.layout.solids[kinds].any(axis=0))
    assert np.array_equal(world.has(mist, cells), (kinds == mist.id).any(axis=0))


@SEEDS
@WORLDS
def test_several_rows_of_cells_are_looked_up_at_once(thicket):
    world, leaf = thicket.world, thicket.rules.leaf

    assert np.array_equal(
        world.has(leaf, world.cell), [world.has(leaf, me.cell) for me in world.agents]
    )
    assert np.array_equal(
        world.solid(world.cell), [world.solid(me.cell) for me in world.agents]
    )


@pytest.mark.parametrize("radius", [0, 1, 2, 3, 9])
@SEEDS
@WORLDS
def test_near_and_count_count_things_of_a_kind(thicket, radius):
    world, leaf = thicket.world, thicket.rules.leaf
    layout, leaves = world.layout, world.mask(leaf)
    rows, columns = np.divmod(layout.inside, layout.stride)
    steps = abs(rows[:, None] - rows) + abs(columns[:, None] - columns)
    close = (steps <= radius) & (steps > 0)

    near = world.near(leaf, radius)

    expected = leaves[:, layout.inside].astype(np.int16) @ close.astype(np.int16)
    assert near.dtype == np.int16
    assert np.array_equal(near[:, layout.inside], expected)
    assert not near[:, layout.outside].any()
    assert np.array_equal(world.count(leaf), leaves.sum(axis=1))


@pytest.mark.parametrize("name", ["rock", "leaf", "seed", "mist"])
@SEEDS
@WORLDS
def test_put_and_clear_change_one_layer_where_they_are_told(thicket, name):
    world, kind, cells = thicket.world, getattr(thicket.rules, name), any_cells(thicket)
    where = thicket.random.random(world.worlds) < 0.7
    layers = world.layers.copy()
    number = world.layout.layer_number(kind.layer)
    for i in np.flatnonzero(where & ~world.layout.outside[cells]):
        layers[number, i, cells[i]] = kind.id

    world.put(kind, cells, where=where)
    assert np.array_equal(world.layers, layers)

    world.clear(cells, kind.layer, where=where)
    layers[number, where, cells[where]] = 0
    assert np.array_equal(world.layers, layers)


@SEEDS
@WORLDS
def test_things_are_sown_into_empty_cells_with_their_lifetimes(thicket):
    world, rules = thicket.world, thicket.rules
    mask = thicket.random.random((world.worlds, world.layout.cells)) < 0.8
    empty = ~world.layers.any(axis=0) & mask

    world.sprinkle(rules.leaf, rules.seed, chance=1.0, mask=mask)

    sown = world.layer("plants")[empty]
    expiry = world.columns.arrays[f"expiry_{world.layout.layer_number('plants')}"]
    ends = np.broadcast_to(world.turn[:, None] + 3, empty.shape)[empty]
    assert set(sown) <= {rules.leaf.id, rules.seed.id}
    assert np.array_equal(expiry[empty] == ends, sown == rules.leaf.id)
    assert np.array_equal(expiry[empty] == np.iinfo(np.int32).max, sown == rules.seed.id)


@SEEDS
@WORLDS
def test_agents_choose_and_move_as_their_tables_say(thicket):
    world, layout = thicket.world, thicket.world.layout
    for me in world.agents:
        actions = thicket.random.integers(0, len(me.body.actions), world.worlds)
        present, cell, facing = me.present, me.cell.copy(), me.facing.copy()
        me.choose(actions)
        target, turned = cell.copy(), facing.copy()
        for i in np.flatnonzero(present):
            name = me.body.actions[actions[i]]
            if name in MOVES:
                turned[i] = MOVES.index(name)
                target[i] += layout.directions[turned[i]]
            if name in STEPS:
                target[i] += layout.directions[(facing[i] + STEPS.index(name)) % 4]
            if name in TURNS:
                turned[i] = (facing[i] + (1, 3)[TURNS.index(name)]) % 4
        assert np.array_equal(me.target, target)
        assert np.array_equal(me.facing[present], turned[present])
        assert np.array_equal(me.action, np.where(present, actions, len(me.body.actions)))

        free = ~world.solid(target)
        assert np.array_equal(me.move(), free)
        assert np.array_equal(me.cell, np.where(free, target, cell))
        ground = np.zeros_like(world.layer("agents"))
        for other in world.agents:
            ground[other.present, other.cell[other.present]] = other.body.kind.id
        on_map = world.layer("agents")[:, layout.inside]
        assert np.array_equal(on_map, ground[:, layout.inside])


@pytest.mark.parametrize("width", [1, 3, 5])
@SEEDS
@WORLDS
def test_beams_fly_lane_by_lane_up_to_the_first_solid_thing(thicket, width):
    world, me, mist = thicket.world, thicket.world.agents[1], thicket.rules.mist
    before = world.layers.copy()

    hit = {other.number: where for other, where in me.beam(mist, 4, width)}

    after, world.layers[...] = world.layers.copy(), before
    for i in range(world.worlds):
        hits = [n for lane in lanes(world, i, width) for n in fly(world, i, lane, 4, mist)]
        assert {n for n, where in hit.items() if where[i]} == set(hits) - {1}
    assert np.array_equal(world.layers, after)


def is_solid(world, i, cell):
    """Return whether something solid is in a cell of one world."""
    return world.layout.solids[world.layers[:, i, cell]].any()


def toward(world, i, quarter):
    """Return the cell offset of a direction, in quarter turns from where agent 1 faces."""
    return world.layout.directions[(world.facing[1, i] + quarter) % 4]


def lanes(world, i, width):
    """Yield the cells from which the lanes of agent 1's beam start in one world."""
    yield world.cell[1, i]
    for quarter in (1, 3):
        cell = world.cell[1, i]
        for _ in range(width // 2):
            cell += toward(world, i, quarter)
            if is_solid(world, i, cell):
                break
            yield cell


def fly(world, i, cell, length, kind):
    """Shoot one lane; yield the agents that it hits."""
    for _ in range(length):
        cell += toward(world, i, 0)
        yield from np.flatnonzero(world.cell[:, i] == cell).tolist()
        if is_solid(world, i, cell):
            break
        world.layer(kind.layer)[i, cell] = kind.id


@SEEDS
@WORLDS
def test_windows_show_every_kind_in_its_channel(thicket):
    world, layout = thicket.world, thicket.world.layout
    observations = thicket.engine.observe((0, 1, 2))
    channels = layout.channels()

    for me, parts in zip(world.agents, observations.parts, strict=True):
        rotated = me.number == 1
        rows = range(-3, 1) if rotated else range(-2, 3)
        columns = range(-1, 2) if rotated else range(-2, 3)
        for i in range(world.worlds):
            for y, down in enumerate(rows):
                for x, right in enumerate(columns):
                    facing = me.facing[i] if rotated else 0
                    ahead = layout.directions[facing]
                    side = layout.directions[(facing + 1) % 4]
                    cell = me.cell[i] - down * ahead + right * side
                    seen = [
                        me.present[i] and world.layer(kind.layer)[i, cell] == kind.id
                        for kind in channels
                    ]
                    assert np.array_equal(parts["view"][i, :, y, x], seen)


@SEEDS
@WORLDS
def test_things_vanish_at_the_end_of_their_lifetimes(thicket):
    world, layout = thicket.world, thicket.world.layout
    now = world.turn + 1
    expected = world.layers.copy()
    for number in layout.mortal_layers:
        expected[number][world.columns.arrays[f"expiry_{number}"] <= now[:, None]] = 0

    thicket.engine.begin_turn()

    other = [i for i, name in enumerate(layout.layers) if name != "agents"]
    assert layout.mortal_layers
    assert np.array_equal(world.layers[other], expected[other])


@pytest.mark.parametrize("worlds", [3])
@pytest.mark.parametrize("seed", [0])
class TestOddArguments:
    """Cells and actions that do not exist, and arrays of other types and layouts."""

    def test_a_cell_that_does_not_exist_is_refused(self, thicket):
        world = thicket.world
        beyond = np.full(3, 3 * world.layout.cells)
        for call in (
            lambda: world.value(beyond),
            lambda: world.solid(-beyond - 1),
            lambda: world.has(thicket.rules.leaf, beyond),
            lambda: world.put(thicket.rules.leaf, beyond),
            lambda: world.clear(beyond, "plants"),
        ):
            with pytest.raises(IndexError, match=r"cell -?\d+ is out of bounds for axis 1"):
                call()

    def test_a_cell_that_is_not_looked_at_need_not_exist(self, thicket):
        layers = thicket.world.layers.copy()

        thicket.world.clear(np.full(3, 10**6), "plants", where=np.zeros(3, bool))

        assert np.array_equal(thicket.world.layers, layers)

    def test_cells_that_are_not_whole_numbers_are_refused(self, thicket):
        with pytest.raises(
            IndexError, match="cells are float64, and arrays used as indice"
        ):
            thicket.world.value(thicket.world.agents[0].cell / 2)

    def test_an_action_that_does_not_exist_is_refused(self, thicket):
        with pytest.raises(IndexError, match="action 99 is out of bounds for axis 0"):
            thicket.world.agents[0].choose(np.array([0, 99, 1]))

    def test_an_agent_placed_outside_the_map_is_refused(self, thicket):
        thicket.world.agents[0].place(np.full(3, 1))

        with pytest.raises(ConfigError, match="agent 0 was placed outside the map: place"):
            thicket.engine.observe((0, 1, 2))

    @pytest.mark.parametrize(
        "change",
        [
            lambda cells: cells.astype(np.int16),
            lambda cells: np.repeat(cells, 2)[::2],
            lambda cells: np.broadcast_to(cells, (2, 3))[1],
            lambda cells: cells.tolist(),
        ],
        ids=["other dtype", "strided", "read-only", "list"],
    )
    def test_cells_may_come_in_any_layout(self, thicket, change):
        world, cells = thicket.world, thicket.world.agents[0].cell.copy()

        assert np.array_equal(world.value(change(cells)), world.value(cells))

    def test_one_cell_stands_for_that_cell_in_all_worlds(self, thicket):
        cell = int(thicket.world.layout.inside[4])

        assert np.array_equal(
            thicket.world.solid(cell), thicket.world.solid(np.full(3, cell))
        )

    @pytest.mark.parametrize("shape", [(3, 1), (1, 1), (), (1, None), (None,), (3, None)])
    def test_masks_may_be_smaller_than_the_map(self, thicket, shape):
        world, rules = thicket.world, thicket.rules
        world.layers[:] = 0
        full = tuple(size or world.layout.cells for size in shape)
        mask = thicket.random.random(full) < 0.5
        chance = np.full(full or (1,), 0.999999999)

        world.sprinkle(rules.seed, chance=chance, mask=mask)

        expected = np.broadcast_to(mask, (3, world.layout.cells)) & world.layout.on_map
        assert np.array_equal(world.mask(rules.seed), expected)
