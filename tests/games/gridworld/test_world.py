"""What lies where, and what an author can do about it."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.errors import ConfigError
from rookery.games.gridworld import Body, GridGame, GridSettings, Kind, Window
from rookery.games.gridworld.names import AGENTS

EVERY_BIT = np.uint32(0xFFFFFFFF)


class Garden(GridGame):
    """Two layers of things, and one agent that stays in the corner."""

    map = """
P....
.....
....."""

    def declare(self):
        self.fence_post = Kind(solid=True, value=-1.0, layer="walls", char="#")
        self.rose = Kind(value=3.0)
        self.weed = Kind(value=-2.0)
        self.spark = Kind(layer="air", lifetime=1)
        self.smoke = Kind(layer="air", lifetime=3, char="~")
        self.cloud = Kind(layer="air")
        self.gnome = Body(("stay",), sees={"view": Window(radius=1)})


class Wide(GridGame):
    """Room enough for statistics."""

    class Settings(GridSettings):
        height: int = 20
        width: int = 20

    def declare(self):
        self.tree = Kind(solid=True, layer="walls")
        self.rose = Kind()
        self.weed = Kind()
        self.moss = Kind()
        self.gnome = Body(("stay",), sees={"view": Window(radius=1)})


@pytest.fixture
def garden(board):
    return board(Garden, worlds=2, agents=1)


@pytest.fixture
def wide(board):
    return board(Wide, worlds=16, agents=1)


def inside(wide, array):
    return array[:, wide.engine.layout.inside]


def within(share, expected, count):
    """Return whether a share of `count` is what chance allows."""
    return abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / count)


# What lies where.


def test_value_of_an_empty_cell_is_zero(garden):
    assert garden.world.value(garden.cells((1, 1), (2, 2))).tolist() == [0, 0]


def test_value_is_the_sum_over_all_layers(garden):
    spots = garden.cells((1, 1), (2, 2))
    garden.world.put(garden.rules.rose, spots)
    garden.world.put(garden.rules.fence_post, spots, where=np.array([True, False]))

    assert garden.world.value(spots).tolist() == [2, 3]


def test_solid_things_agents_and_the_outside_are_solid(garden):
    garden.world.put(garden.rules.fence_post, garden.cells((1, 1), (1, 1)))
    garden.world.put(garden.rules.rose, garden.cells((1, 2), (1, 2)))

    def solid(row, column):
        return garden.world.solid(garden.cells((row, column), (row, column))).tolist()

    above = garden.cells((0, 3), (0, 3)) - garden.engine.layout.stride
    assert solid(1, 1) == [True, True]
    assert solid(0, 0) == [True, True]  # the agent
    assert garden.world.solid(above).tolist() == [True, True]
    assert solid(1, 2) == [False, False]
    assert solid(2, 2) == [False, False]


def test_has_tells_a_kind_from_others_in_its_layer(garden):
    world, rules = garden.world, garden.rules
    spots = garden.cells((1, 1), (2, 3))
    world.put(rules.rose, spots, where=np.array([True, False]))
    world.put(rules.weed, spots, where=np.array([False, True]))

    assert world.has(rules.rose, spots).tolist() == [True, False]
    assert world.has(rules.weed, spots).tolist() == [False, True]
    assert world.has(rules.cloud, spots).tolist() == [False, False]


def test_mask_shows_where_a_kind_is(garden):
    garden.world.put(garden.rules.rose, garden.cells((1, 1), (2, 4)))

    mask = garden.world.mask(garden.rules.rose)

    assert mask.shape == (2, garden.engine.layout.cells)
    assert np.argwhere(garden.on_map(mask, 0)).tolist() == [[1, 1]]
    assert np.argwhere(garden.on_map(mask, 1)).tolist() == [[2, 4]]


def test_count_is_per_world(garden):
    garden.world.fill(garden.rules.rose, garden.mask((1, 1), (1, 2)))
    garden.world.put(
        garden.rules.rose, garden.cells((2, 2), (2, 2)), np.array([False, True])
    )

    assert garden.world.count(garden.rules.rose).tolist() == [2, 3]


@pytest.mark.parametrize("radius", [1, 2, 3])
def test_near_counts_things_within_a_radius_of_each_cell(garden, radius):
    spots = [(0, 1), (1, 1), (1, 3), (2, 4)]
    garden.world.fill(garden.rules.rose, garden.mask(*spots))

    near = garden.on_map(garden.world.near(garden.rules.rose, radius))

    expected = [
        [
            sum(0 < abs(row - r) + abs(column - c) <= radius for r, c in spots)
            for column in range(5)
        ]
        for row in range(3)
    ]
    assert near.tolist() == expected


def test_near_counts_one_step_by_default(garden):
    garden.world.fill(garden.rules.rose, garden.mask((1, 1), (0, 2)))

    near = garden.on_map(garden.world.near(garden.rules.rose))

    assert near[0, 1] == 2
    assert near[1, 1] == 0


def test_near_does_not_reach_around_the_edge_of_the_map(garden):
    garden.world.fill(garden.rules.rose, garden.mask((1, 4)))

    near = garden.on_map(garden.world.near(garden.rules.rose, radius=2))

    assert near[:, 0].tolist() == [0, 0, 0]


def test_near_counts_each_world_separately(garden):
    garden.world.put(
        garden.rules.rose, garden.cells((1, 1), (1, 1)), np.array([True, False])
    )

    near = garden.world.near(garden.rules.rose)

    assert near[0].sum() == 4
    assert near[1].sum() == 0


def test_unknown_layer_is_an_error_with_the_closest(garden):
    with pytest.raises(ConfigError, match="no layer 'wals': did you mean 'walls'"):
        garden.world.layer("wals")


# Changing what lies where.


def test_put_replaces_the_thing_on_its_layer(garden):
    spots = garden.cells((1, 1), (1, 1))
    garden.world.put(garden.rules.rose, spots)

    garden.world.put(garden.rules.weed, spots)

    assert garden.world.count(garden.rules.rose).tolist() == [0, 0]
    assert garden.world.count(garden.rules.weed).tolist() == [1, 1]


def test_put_leaves_other_layers_alone(garden):
    spots = garden.cells((1, 1), (1, 1))
    garden.world.put(garden.rules.rose, spots)

    garden.world.put(garden.rules.cloud, spots)

    assert garden.world.has(garden.rules.rose, spots).all()
    assert garden.world.has(garden.rules.cloud, spots).all()


def test_put_applies_only_where_it_is_asked_to(garden):
    spots = garden.cells((1, 1), (1, 1))

    garden.world.put(garden.rules.rose, spots, where=np.array([False, True]))

    assert garden.world.count(garden.rules.rose).tolist() == [0, 1]


def test_clear_empties_one_layer_of_a_cell(garden):
    spots = garden.cells((1, 1), (2, 2))
    garden.world.put(garden.rules.rose, spots)
    garden.world.put(garden.rules.cloud, spots)

    garden.world.clear(spots, layer="things")

    assert garden.world.count(garden.rules.rose).tolist() == [0, 0]
    assert garden.world.count(garden.rules.cloud).tolist() == [1, 1]


def test_clear_applies_only_where_it_is_asked_to(garden):
    spots = garden.cells((1, 1), (1, 1))
    garden.world.put(garden.rules.rose, spots)

    garden.world.clear(spots, layer="things", where=np.array([True, False]))

    assert garden.world.count(garden.rules.rose).tolist() == [0, 1]


def test_clearing_an_unknown_layer_is_an_error(garden):
    with pytest.raises(ConfigError, match="no layer 'thing': did you mean 'things'"):
        garden.world.clear(garden.cells((1, 1), (1, 1)), layer="thing")


def test_agents_cannot_be_cleared(garden):
    with pytest.raises(ConfigError, match=r"agents.*leave"):
        garden.world.clear(garden.agents[0].cell, layer=AGENTS)


def test_fill_puts_a_kind_into_all_cells_of_a_mask_in_every_world(garden):
    garden.world.fill(garden.rules.rose, garden.mask((0, 1), (2, 4)))

    for world in range(2):
        there = garden.on_map(garden.world.mask(garden.rules.rose), world)
        assert np.argwhere(there).tolist() == [[0, 1], [2, 4]]


def test_fill_takes_a_mask_per_world(garden):
    masks = np.stack([garden.mask((0, 1)), garden.mask((2, 4), (2, 3))])

    garden.world.fill(garden.rules.rose, masks)

    assert np.array_equal(garden.world.mask(garden.rules.rose), masks)


def test_remove_removes_one_kind_from_the_cells_of_a_mask(garden):
    world, rules = garden.world, garden.rules
    world.fill(rules.rose, garden.mask((0, 1), (0, 2)))
    world.fill(rules.weed, garden.mask((0, 3)))

    world.remove(rules.rose, garden.mask((0, 1), (0, 3)))

    left = garden.on_map(world.mask(rules.rose))
    assert np.argwhere(left).tolist() == [[0, 2]]
    assert world.count(rules.weed).tolist() == [1, 1]


def test_remove_takes_a_mask_per_world(garden):
    garden.world.fill(garden.rules.rose, garden.mask((0, 1), (0, 2)))
    masks = np.stack([garden.mask(), garden.mask((0, 2))])

    garden.world.remove(garden.rules.rose, masks)

    assert garden.world.count(garden.rules.rose).tolist() == [2, 1]


def test_fence_stands_all_around_the_edge_of_the_map(garden):
    garden.world.fence(garden.rules.fence_post)

    there = garden.on_map(garden.world.mask(garden.rules.fence_post))
    expected = np.ones((3, 5), bool)
    expected[1:-1, 1:-1] = False
    assert np.array_equal(there, expected)


def test_filling_everything_fills_only_the_map(garden):
    everywhere = np.ones(garden.engine.layout.cells, bool)

    garden.world.fill(garden.rules.rose, everywhere)

    assert garden.world.count(garden.rules.rose).tolist() == [15, 15]


def test_nothing_can_be_put_beyond_the_edge_of_the_map(garden):
    above = garden.cells((0, 3), (0, 3)) - garden.engine.layout.stride

    garden.world.put(garden.rules.rose, above)

    assert garden.world.count(garden.rules.rose).tolist() == [0, 0]


def test_agent_that_is_off_the_map_drops_nothing(garden):
    me = garden.agents[0]
    me.leave(3, where=np.array([True, False]))

    garden.world.put(garden.rules.rose, me.cell)

    assert garden.world.count(garden.rules.rose).tolist() == [0, 1]


# Sprinkling.


def test_kinds_of_two_layers_cannot_be_sprinkled_together(garden):
    rose, cloud = garden.rules.rose, garden.rules.cloud

    with pytest.raises(ConfigError, match="kinds of the layers things, air, expected one"):
        garden.world.sprinkle(rose, cloud, chance=0.1)

    assert garden.world.count(rose).tolist() == [0, 0]


@pytest.mark.parametrize("chance", [0.005, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("spread", [False, True], ids=["number", "per cell"])
def test_cells_fill_as_often_as_the_probability_says(wide, chance, spread):
    kinds = (wide.rules.rose, wide.rules.weed, wide.rules.moss)
    given = np.full(wide.engine.layout.cells, chance) if spread else chance

    filled = 0
    for _ in range(10):
        wide.world.sprinkle(*kinds, chance=given)
        things = wide.world.layer("things")
        filled += np.count_nonzero(things)
        things[...] = 0

    cells = 10 * 16 * 399  # the agent's cell is not empty
    assert within(filled / cells, chance, cells)


@pytest.mark.parametrize("chance", [0.02, 1.0])
@pytest.mark.parametrize("spread", [False, True], ids=["number", "per cell"])
def test_kinds_are_equally_frequent(wide, chance, spread):
    kinds = (wide.rules.rose, wide.rules.weed, wide.rules.moss)
    given = np.full(wide.engine.layout.cells, chance) if spread else chance

    counts = np.zeros(3)
    for _ in range(10):
        wide.world.sprinkle(*kinds, chance=given)
        counts += [wide.world.count(kind).sum() for kind in kinds]
        wide.world.layer("things")[...] = 0

    assert within(counts / counts.sum(), np.full(3, 1 / 3), counts.sum()).all()


@pytest.mark.parametrize("spread", [False, True], ids=["number", "per cell"])
def test_no_cell_fills_with_probability_zero(wide, spread):
    given = np.zeros(wide.engine.layout.cells) if spread else 0

    wide.world.sprinkle(wide.rules.rose, chance=given)

    assert wide.world.count(wide.rules.rose).tolist() == [0] * 16


@pytest.mark.parametrize("spread", [False, True], ids=["number", "per cell"])
def test_every_empty_cell_fills_with_probability_one(wide, spread):
    given = np.ones(wide.engine.layout.cells) if spread else 1

    wide.world.sprinkle(wide.rules.rose, chance=given)

    assert wide.world.count(wide.rules.rose).tolist() == [399] * 16


@pytest.mark.parametrize("spread", [False, True], ids=["number", "per cell"])
@pytest.mark.parametrize(
    ("chance", "bits", "filled"),
    [(0, np.uint32(0), 0), (1, EVERY_BIT, 399)],
    ids=["never", "always"],
)
def test_the_extremes_of_a_probability_are_exact(
    wide, monkeypatch, spread, chance, bits, filled
):
    given = np.full(wide.engine.layout.cells, float(chance)) if spread else chance
    monkeypatch.setattr(wide.world.random, "bits", lambda count: np.full((16, count), bits))

    wide.world.sprinkle(wide.rules.rose, wide.rules.weed, chance=given)

    assert np.count_nonzero(wide.world.layer("things")) == 16 * filled


def test_the_probability_can_differ_from_cell_to_cell_and_world_to_world(garden):
    chances = np.zeros((2, garden.engine.layout.cells))
    chances[0, garden.cell(1, 1)] = 1
    chances[1, garden.cell(2, 4)] = 1

    garden.world.sprinkle(garden.rules.rose, chance=chances)

    assert np.array_equal(garden.world.mask(garden.rules.rose), chances == 1)


@pytest.mark.parametrize("layer", ["walls", "things", "air", AGENTS])
def test_only_cells_empty_in_every_layer_fill(garden, layer):
    rules, world = garden.rules, garden.world
    taken = {
        "walls": rules.fence_post,
        "things": rules.weed,
        "air": rules.cloud,
        AGENTS: None,
    }[layer]
    spots = garden.cells((1, 1), (1, 1))
    if taken is None:
        spots = garden.agents[0].cell
    else:
        world.put(taken, spots)

    world.sprinkle(rules.rose, chance=1)

    assert not world.has(rules.rose, spots).any()


def test_only_cells_of_the_mask_fill(garden):
    mask = garden.mask((1, 1), (2, 2))

    garden.world.sprinkle(garden.rules.rose, chance=1, mask=mask)

    assert (garden.world.mask(garden.rules.rose) == mask).all()


def test_mask_can_differ_from_world_to_world(garden):
    masks = np.stack([garden.mask((1, 1)), garden.mask((2, 2), (2, 3))])

    garden.world.sprinkle(garden.rules.rose, chance=1, mask=masks)

    assert np.array_equal(garden.world.mask(garden.rules.rose), masks)


def test_sprinkling_never_leaves_the_map(wide):
    wide.world.sprinkle(wide.rules.rose, chance=1)

    assert not wide.world.mask(wide.rules.rose)[:, wide.engine.layout.outside].any()


def test_worlds_are_sprinkled_differently(wide):
    wide.world.sprinkle(wide.rules.rose, chance=0.5)

    patterns = {row.tobytes() for row in wide.world.mask(wide.rules.rose)}
    assert len(patterns) == 16


def test_cells_fill_independently_of_their_neighbours(wide):
    wide.world.sprinkle(wide.rules.rose, chance=0.5)

    there = inside(wide, wide.world.mask(wide.rules.rose)) * 2.0 - 1
    correlation = (there[:, 1:] * there[:, :-1]).mean()
    assert abs(correlation) < 5 / np.sqrt(there.size)


# Lifetimes.


@pytest.mark.parametrize(("name", "turns"), [("spark", 1), ("smoke", 3)])
def test_thing_stays_for_its_lifetime_including_the_turn_it_appears_in(board, name, turns):
    class Firework(Garden):
        def after(self, world):
            first = world.turn == 2
            kind = getattr(self, name)
            world.put(kind, world.agents[0].cell + 1, where=first)

    firework = board(Firework, agents=1)
    lies = []
    for _ in range(7):
        firework.engine.begin_turn()
        seen = firework.world.count(getattr(firework.rules, name))[0]
        firework.engine.end_turn()
        left = firework.world.count(getattr(firework.rules, name))[0]
        lies.append(bool(seen or left))

    assert lies == [1 < turn <= 1 + turns for turn in range(1, 8)]


def test_thing_with_lifetime_one_is_gone_when_the_next_turn_begins(garden):
    spots = garden.cells((1, 1), (1, 1))
    garden.engine.begin_turn()
    garden.world.put(garden.rules.spark, spots)
    garden.engine.end_turn()
    assert garden.world.count(garden.rules.spark).tolist() == [1, 1]

    garden.engine.begin_turn()

    assert garden.world.count(garden.rules.spark).tolist() == [0, 0]


def test_thing_without_lifetime_stays_in_a_layer_of_short_lived_ones(garden):
    spots = garden.cells((1, 1), (1, 1))
    garden.world.put(garden.rules.cloud, spots)

    for _ in range(10):
        garden.turn()

    assert garden.world.has(garden.rules.cloud, spots).all()


def test_thing_put_over_a_short_lived_one_does_not_inherit_its_lifetime(garden):
    spots = garden.cells((1, 1), (1, 1))
    garden.world.put(garden.rules.smoke, spots)
    garden.turn()
    garden.world.put(garden.rules.cloud, spots)

    for _ in range(10):
        garden.turn()

    assert garden.world.has(garden.rules.cloud, spots).all()


def test_thing_put_again_has_its_full_lifetime_again(garden):
    spots = garden.cells((1, 1), (1, 1))
    garden.turn()
    garden.world.put(garden.rules.smoke, spots)  # in turn 1: gone when 4 begins
    garden.turn()
    garden.world.put(garden.rules.smoke, spots)  # in turn 2: gone when 5 begins

    garden.turn()
    garden.turn()
    assert garden.world.has(garden.rules.smoke, spots).all()
    garden.turn()
    assert not garden.world.has(garden.rules.smoke, spots).any()


def test_expiry_leaves_other_layers_alone(garden):
    spots = garden.cells((1, 1), (1, 1))
    garden.world.put(garden.rules.rose, spots)
    garden.world.put(garden.rules.spark, spots)

    garden.turn()
    garden.turn()

    assert garden.world.has(garden.rules.rose, spots).all()


def test_sprinkled_things_have_lifetimes_too(garden):
    garden.engine.begin_turn()
    garden.world.sprinkle(garden.rules.spark, chance=1)
    garden.engine.end_turn()

    garden.engine.begin_turn()

    assert garden.world.count(garden.rules.spark).tolist() == [0, 0]


# Random numbers, one per world.


def test_uniform_gives_one_number_per_world(wide):
    numbers = wide.world.uniform()

    assert numbers.shape == (16,)
    assert len(set(numbers)) == 16
    assert ((numbers >= 0) & (numbers < 1)).all()


@pytest.mark.parametrize(("probability", "always"), [(0, False), (1, True)])
def test_chance_of_zero_and_one_is_exact(wide, probability, always):
    drawn = [wide.world.chance(probability) for _ in range(50)]

    assert (np.array(drawn) == always).all()


def test_chance_is_true_as_often_as_the_probability_says(wide):
    drawn = np.array([wide.world.chance(0.3) for _ in range(500)])

    assert within(drawn.mean(), 0.3, drawn.size)


def test_chance_can_differ_from_world_to_world(garden):
    drawn = [garden.world.chance(np.array([0.0, 1.0])) for _ in range(20)]

    assert np.array(drawn).tolist() == [[False, True]] * 20


def test_integers_are_even_below_their_limit(wide):
    drawn = np.array([wide.world.integers(5) for _ in range(500)])

    shares = np.bincount(drawn.ravel()) / drawn.size
    assert within(shares, np.full(5, 0.2), drawn.size).all()


def test_end_marks_worlds_as_over_for_the_rest_of_the_turn(garden):
    garden.world.end(np.array([True, False]))
    garden.world.end(np.array([False, False]))

    assert garden.world.over.tolist() == [True, False]


@pytest.mark.parametrize("chance", [0.1, np.full((16, 1), 0.1)], ids=["number", "by world"])
def test_lucky_cells_are_as_frequent_as_the_probability_whatever_they_contain(wide, chance):
    wide.world.fill(wide.rules.tree, np.ones(wide.engine.layout.cells, bool))

    lucky = np.mean([inside(wide, wide.world.lucky(chance)).mean() for _ in range(20)])

    assert abs(lucky - 0.1) < 5 * np.sqrt(0.1 * 0.9 / (20 * 16 * 400))


def test_lucky_cells_are_on_the_map(wide):
    lucky = wide.world.lucky(1.0)

    assert np.array_equal(lucky, np.tile(~wide.engine.layout.outside, (16, 1)))
