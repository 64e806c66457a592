"""Worlds as text: maps in, `show` out, and the picture."""

from __future__ import annotations

import re

import numpy as np
import pytest

from rookery.errors import ConfigError
from rookery.games.gridworld import Body, GridGame, Kind, Window

SEES = {"view": Window(radius=1)}


class Village(GridGame):
    map = """
#####
#P.b#
# g #
#####"""

    def declare(self):
        self.wall = Kind(solid=True, layer="walls", char="#")
        self.bread = Kind()
        self.gold = Kind(layer="cellar")
        self.smoke = Kind(layer="air")
        self.miller = Body(("stay",), SEES)


def village(drawing):
    """Return the rules of the village with another map."""
    return type("Village", (Village,), {"map": drawing})


def where(board, kind):
    return np.argwhere(board.on_map(board.world.mask(kind))).tolist()


# Maps.


def test_map_gives_the_world_its_size(board):
    layout = board(Village, agents=1).engine.layout

    assert (layout.height, layout.width) == (4, 5)


def test_map_puts_kinds_where_their_chars_are(board):
    drawn = board(Village, agents=1)

    assert where(drawn, drawn.rules.bread) == [[1, 3]]
    assert where(drawn, drawn.rules.gold) == [[2, 2]]
    assert drawn.world.count(drawn.rules.wall).tolist() == [14]


def test_map_is_the_same_in_every_world(board):
    drawn = board(Village, worlds=4, agents=1)

    assert drawn.world.count(drawn.rules.bread).tolist() == [1] * 4


def test_agents_start_on_start_spots(board):
    drawn = board(village("P....P\n......\nP....."), worlds=20, agents=3)

    for world in range(20):
        spots = {drawn.spot(agent, world) for agent in range(3)}
        assert spots == {(0, 0), (0, 5), (2, 0)}


def test_start_spots_are_drawn_at_random(board):
    drawn = board(village("PPPP"), worlds=400, agents=1)

    columns = [drawn.spot(0, world)[1] for world in range(400)]
    assert np.abs(np.bincount(columns) - 100).max() < 5 * np.sqrt(100)


def test_agents_start_facing_any_way(board):
    drawn = board(village("PPPP"), worlds=400, agents=1)

    assert np.abs(np.bincount(drawn.agents[0].facing) - 100).max() < 5 * np.sqrt(100)


def test_without_start_spots_agents_start_on_any_empty_cell(board):
    drawn = board(village("###\n#.#\n###"), worlds=5, agents=1)

    assert [drawn.spot(0, world) for world in range(5)] == [(1, 1)] * 5


def test_dots_and_spaces_are_empty(board):
    drawn = board(village("P. .\n.  ."), agents=1)

    for layer in ("walls", "things", "cellar", "air"):
        assert not drawn.world.layer(layer).any()


def test_short_lines_are_filled_up_where_empty_cells_are_spaces(board):
    layout = board(village("P\n#  #\n"), agents=1).engine.layout

    assert (layout.height, layout.width) == (2, 4)


def test_short_line_is_refused_where_empty_cells_are_dots(board):
    with pytest.raises(
        ConfigError, match=r"row 1 of the map of Village has 1 cells, expect"
    ):
        board(village("P\n#..#\n"), agents=1)


def test_blank_lines_around_the_drawing_are_ignored(board):
    layout = board(village("\n\nP..\n...\n\n"), agents=1).engine.layout

    assert layout.height == 2


def test_blank_lines_within_the_drawing_are_empty_rows(board):
    drawn = board(village("P##\n   \n##b"), agents=1)

    assert drawn.engine.layout.height == 3
    assert where(drawn, drawn.rules.bread) == [[2, 2]]


@pytest.mark.parametrize("char", ["x", "ß", "\t", "0"])
def test_unknown_char_is_an_error_that_lists_the_known_ones(board, char):
    message = (
        rf"map of Village uses {re.escape(repr(char))} in row 1, column 3, but no Kind has "
        r"that char: known are # .*P b g s\."
    )

    with pytest.raises(ConfigError, match=message):
        board(village(f"P.{char}"), agents=1)


def test_map_cannot_draw_an_agents_body(board):
    with pytest.raises(ConfigError, match=r"uses '@' in row 1, .*no Kind has that char"):
        board(village("P.@"), agents=1)


def test_char_of_two_kinds_in_a_map_is_an_error_that_names_both(board):
    class Bakery(Village):
        def declare(self):
            super().declare()
            self.bun = Kind()

    with pytest.raises(ConfigError, match=r"'b'.*bread.*bun"):
        board(Bakery, agents=1)


def test_kind_with_the_char_of_start_spots_is_an_error(board):
    class Pottery(Village):
        def declare(self):
            super().declare()
            self.pot = Kind(char="P")

    with pytest.raises(ConfigError, match=r"'P'.*pot"):
        board(Pottery, agents=1)


def test_map_can_depend_on_settings(board):
    class Long(Village):
        def declare(self):
            super().declare()
            self.map = "P" * self.settings.agents

    assert board(Long, agents=4).engine.layout.width == 4


# Show.


def test_show_draws_what_the_map_drew_with_agents_by_number(board):
    shown = board(Village, agents=1).engine.show()

    assert shown == "#####\n#0.b#\n#.g.#\n#####"


def test_show_takes_the_world_to_show(board):
    drawn = board(Village, worlds=2, agents=1)
    drawn.agents[0].place(drawn.cells((1, 1), (2, 3)))

    assert drawn.show(0)[1:3] == ["#0.b#", "#.g.#"]
    assert drawn.show(1)[1:3] == ["#..b#", "#.g0#"]


def test_show_has_the_topmost_thing_of_a_cell(board):
    drawn = board(Village, agents=1)

    drawn.world.fill(drawn.rules.smoke, drawn.mask((1, 3)))

    assert drawn.show()[1] == "#0.s#"


def test_show_has_agents_above_everything(board):
    drawn = board(Village, agents=1)

    drawn.world.fill(drawn.rules.smoke, drawn.mask((1, 1)))

    assert drawn.show()[1] == "#0.b#"


def test_show_leaves_out_agents_that_are_off_the_map(board):
    drawn = board(Village, agents=1)

    drawn.agents[0].leave(3, where=np.array([True]))

    assert drawn.show() == ["#####", "#..b#", "#.g.#", "#####"]


def test_show_numbers_agents_beyond_nine_by_letters(board):
    drawn = board(village("P" * 12), agents=12)
    for agent in range(12):
        drawn.agents[agent].cell[...] = drawn.cell(0, agent)

    assert drawn.show() == ["0123456789ab"]


# The picture.


def square(pixels, row, column, size=32):
    return pixels[row * size : (row + 1) * size, column * size : (column + 1) * size]


@pytest.mark.parametrize("size", [16, 32])
def test_picture_has_a_square_per_cell(board, size):
    pixels = board(Village, agents=1).engine.render(0, size)

    assert pixels.shape == (4 * size, 5 * size, 3)
    assert pixels.dtype == np.uint8


def test_picture_shows_things_and_agents(board):
    drawn = board(Village, agents=1)
    before = drawn.engine.render()

    drawn.agents[0].leave(3, where=np.array([True]))
    drawn.world.clear(drawn.cells((1, 3)), layer="things")

    after = drawn.engine.render()
    changed = (before != after).any(axis=2)
    assert square(changed, 1, 1).any()
    assert square(changed, 1, 3).any()
    assert changed.sum() == square(changed, 1, 1).sum() + square(changed, 1, 3).sum()


@pytest.mark.parametrize("ground", ["water", "floor"])
def test_agent_is_painted_over_kinds_declared_before_its_body(board, ground):
    class Pond(Village):
        def declare(self):
            self.ground = Kind(layer="ground", char="~", tile=ground)
            super().declare()

    pond = board(Pond, agents=1)
    pond.world.fill(pond.rules.ground, pond.mask((1, 1)))
    with_agent = square(pond.engine.render(), 1, 1).copy()

    pond.agents[0].leave(3, where=np.array([True]))

    assert not np.array_equal(square(pond.engine.render(), 1, 1), with_agent)


def test_kinds_declared_after_a_body_are_painted_over_the_agent(board):
    class Hidden(Village):
        def declare(self):
            super().declare()
            self.roof = Kind(layer="roofs", tile="wall", char="^")

    hidden = board(Hidden, agents=1)
    hidden.world.fill(hidden.rules.roof, hidden.mask((1, 1)))
    with_agent = square(hidden.engine.render(), 1, 1).copy()

    hidden.agents[0].leave(3, where=np.array([True]))

    assert np.array_equal(square(hidden.engine.render(), 1, 1), with_agent)
