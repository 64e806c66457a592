"""Declared state: shapes, defaults, and attributes that write into it."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.games.gridworld import (
    Body,
    GridGame,
    Kind,
    PerAgent,
    PerCell,
    PerWorld,
    Window,
)
from rookery.games.gridworld.state import StateArrays


class Farm(GridGame):
    map = """
P..P
...."""

    def declare(self):
        self.straw = Kind()
        self.water = PerCell(np.int16, default=3)
        self.dry = PerCell(np.bool_)
        self.hunger = PerAgent(default=0.5)
        self.basket = PerAgent(np.int8, (2, 3), default=-1)
        self.weather = PerWorld(np.int64, default=7)
        self.wind = PerWorld(shape=(2,))
        self.hen = Body(("stay",), sees={"view": Window(radius=1)})


@pytest.fixture
def farm(board):
    return board(Farm, worlds=3, agents=2, turns=2)


def test_column_per_cell_has_a_value_for_every_cell_of_every_world(farm):
    assert farm.world.water.shape == (3, farm.engine.layout.cells)
    assert farm.world.water.dtype == np.int16


def test_column_per_cell_has_the_shape_it_was_declared_with(board):
    class Deep(Farm):
        def declare(self):
            super().declare()
            self.soil = PerCell(np.int8, (2,))

    deep = board(Deep, worlds=3, agents=2)

    assert deep.world.soil.shape == (3, deep.engine.layout.cells, 2)


def test_column_per_agent_has_the_shape_it_was_declared_with(farm):
    assert farm.agents[0].hunger.shape == (3,)
    assert farm.agents[0].basket.shape == (3, 2, 3)


def test_column_per_world_has_the_shape_it_was_declared_with(farm):
    assert farm.world.weather.shape == (3,)
    assert farm.world.wind.shape == (3, 2)


def test_columns_are_float32_unless_declared(farm):
    assert farm.agents[0].hunger.dtype == np.float32
    assert farm.world.wind.dtype == np.float32


def test_columns_start_at_their_defaults(farm):
    assert (farm.world.water == 3).all()
    assert not farm.world.dry.any()
    assert (farm.agents[1].hunger == 0.5).all()
    assert (farm.agents[1].basket == -1).all()
    assert (farm.world.weather == 7).all()
    assert (farm.world.wind == 0).all()


def test_each_agent_has_its_own_values(farm):
    first, second = farm.agents

    first.hunger = 9

    assert (first.hunger == 9).all()
    assert (second.hunger == 0.5).all()


def test_world_sees_the_columns_of_all_agents_together(farm):
    farm.agents[1].hunger = np.array([1, 2, 3])

    assert farm.world.hunger.tolist() == [[0.5, 0.5, 0.5], [1, 2, 3]]


def test_assigning_writes_into_the_state_instead_of_replacing_it(farm):
    column = farm.world.weather

    farm.world.weather = np.array([1, 2, 3])

    assert farm.world.weather is column
    assert farm.engine.snapshot()["weather"].tolist() == [1, 2, 3]


def test_adding_in_place_writes_into_the_state(farm):
    me = farm.agents[0]

    me.hunger += np.array([1, 2, 3])

    assert farm.engine.snapshot()["hunger"][:, 0].tolist() == [1.5, 2.5, 3.5]


def test_numbers_that_do_not_fit_the_type_are_refused(farm):
    with pytest.raises(TypeError, match=r"same_kind|int64"):
        farm.world.weather += 0.5


@pytest.mark.parametrize("owner", ["agent", "world"])
def test_assigning_an_undeclared_column_is_an_error_that_says_what_to_do(farm, owner):
    target = farm.agents[0] if owner == "agent" else farm.world

    with pytest.raises(AttributeError, match=r"no column 'marks': declare it with PerA"):
        target.marks = 1


def test_only_a_column_per_agent_or_a_count_is_suggested_for_agents(farm):
    message = (
        r"^agents have no .* 'marks': declare it with PerAgent, or add it to counts\.$"
    )

    with pytest.raises(AttributeError, match=message):
        farm.agents[0].marks += 1


def test_column_of_the_game_is_suggested_for_a_name_that_is_not_very_similar(farm):
    message = (
        r"no column 'angry': did you mean 'hunger'\? If not, declare it with PerAgent,"
    )

    with pytest.raises(AttributeError, match=message):
        farm.agents[0].angry += 1


def test_the_error_says_whether_agents_or_worlds_lack_the_column(farm):
    with pytest.raises(AttributeError, match="agents have no column 'marks'"):
        farm.agents[0].marks = 1
    with pytest.raises(AttributeError, match="worlds have no column 'marks'"):
        farm.world.marks = 1


@pytest.mark.parametrize("owner", ["agent", "world"])
def test_reading_an_undeclared_column_is_an_error_that_says_what_to_do(farm, owner):
    target = farm.agents[0] if owner == "agent" else farm.world

    with pytest.raises(AttributeError, match=r"no column 'marks': declare it with Per"):
        _ = target.marks


@pytest.mark.parametrize("name", ["layout", "agents", "worlds", "random"])
def test_parts_of_the_world_cannot_be_assigned(farm, name):
    with pytest.raises(AttributeError, match=f"worlds have no column '{name}'"):
        setattr(farm.world, name, 1)


@pytest.mark.shows("D11")
def test_reset_sets_every_column_back_to_its_default(farm):
    for column in ("water", "dry", "hunger", "basket", "weather", "wind"):
        farm.world.columns.arrays[column][...] = 1

    for _ in range(3):  # two turns, and the closing one
        farm.turn()

    assert (farm.world.water == 3).all()
    assert not farm.world.dry.any()
    assert (farm.world.hunger == 0.5).all()
    assert (farm.world.basket == -1).all()
    assert (farm.world.weather == 7).all()
    assert (farm.world.wind == 0).all()


@pytest.fixture
def columns():
    columns = StateArrays(worlds=3)
    columns.add("plain", np.int64, default=4)
    columns.add("deep", np.int8, (2,), (5,))
    return columns


def test_the_world_axis_is_between_the_axes_before_and_after(columns):
    assert columns.arrays["deep"].shape == (2, 3, 5)


def test_by_world_is_a_view_with_the_world_axis_first(columns):
    columns.by_world["deep"][1, 0, 2] = 9

    assert columns.by_world["deep"].shape == (3, 2, 5)
    assert columns.arrays["deep"][0, 1, 2] == 9


def test_taken_state_does_not_change_with_the_columns(columns):
    taken = columns.take(slice(None))

    columns.arrays["plain"][...] = 0

    assert taken["plain"].tolist() == [4, 4, 4]


def test_state_of_some_worlds_is_put_into_others(columns):
    columns.arrays["plain"][...] = [10, 20, 30]
    first_two = columns.take(np.array([True, True, False]))

    columns.put(np.array([False, True, True]), first_two)

    assert columns.arrays["plain"].tolist() == [10, 10, 20]


def test_blank_columns_have_their_defaults(columns):
    columns.arrays["plain"][...] = 0
    columns.arrays["deep"][...] = 1

    columns.blank()

    assert (columns.arrays["plain"] == 4).all()
    assert (columns.arrays["deep"] == 0).all()
