"""Declarations of a grid game, and the specs that the engine makes from them."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import Field, ValidationError

from rookery.errors import ConfigError
from rookery.games.gridworld import (
    MOVES,
    Body,
    GridGame,
    GridSettings,
    Kind,
    PerAgent,
    PerCell,
    PerWorld,
    Vector,
    Window,
)

STAY = ("stay",)


class Meadow(GridGame):
    map = """
#####
#P.P#
#.P.#
#####"""

    def declare(self):
        self.hedge = Kind(solid=True, layer="ground", char="#")
        self.berry = Kind(value=2.0)
        self.secret = Kind(seen=False)
        self.energy = PerAgent()
        self.compass = PerAgent(np.int8, (2,))
        self.season = PerWorld(np.int16)
        self.sheep = Body(
            (*MOVES, "stay"),
            sees={
                "view": Window(radius=2),
                "self": Vector("energy", "compass", "season"),
            },
        )


class Hunt(Meadow):
    def declare(self):
        super().declare()
        del self.sheep
        self.hare = Body(STAY, sees={"view": Window(radius=1)})
        self.fox = Body((MOVES, ("quiet", "bark")), sees={"view": Window(ahead=3, sides=1)})

    def roster(self):
        return [self.hare, self.hare, self.fox]


class Choosy(Meadow):
    def legal(self, world, me):
        return np.ones((world.worlds, 5), bool)


class Careless(Meadow):
    """Passes on whatever `extra` declares."""

    @staticmethod
    def extra(game):
        raise NotImplementedError

    def declare(self):
        super().declare()
        self.extra(self)


def declaring(extra):
    """Return the rules of the meadow with more declarations."""
    return type("Careless", (Careless,), {"extra": staticmethod(extra)})


def test_grid_games_have_the_promised_settings():
    settings = GridSettings()

    assert settings.agents == 3
    assert settings.turns == 100
    assert settings.acting == "simultaneous"
    assert settings.order == "shuffled"


@pytest.mark.parametrize(
    "wrong",
    [
        {"agents": 0},
        {"turns": 0},
        {"acting": "sometimes"},
        {"order": "random"},
        {"agent": 3},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_invalid_settings_are_refused(wrong):
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        GridSettings(**wrong)


def test_kind_is_named_after_its_attribute(board):
    rules = board(Meadow).rules

    assert rules.hedge.name == "hedge"
    assert rules.berry.name == "berry"


def test_char_of_a_kind_is_the_first_letter_of_its_name(board):
    rules = board(Meadow).rules

    assert rules.berry.char == "b"
    assert rules.hedge.char == "#"


def test_kinds_have_different_numbers_above_zero(board):
    layout = board(Hunt).engine.layout

    numbers = [kind.id for kind in layout.kinds[1:]]
    assert len(set(numbers)) == len(numbers)
    assert min(numbers) > 0


def test_all_agents_have_the_only_body_declared(board):
    engine = board(Meadow, agents=3).engine

    assert [spec.role for spec in engine.agents] == ["sheep"] * 3


def test_agents_are_called_by_their_numbers(board):
    assert [spec.id for spec in board(Meadow).engine.agents] == ["0", "1", "2"]


def test_roster_gives_agents_different_bodies(board):
    engine = board(Hunt).engine

    assert [spec.role for spec in engine.agents] == ["hare", "hare", "fox"]
    assert [spec.num_actions for spec in engine.agents] == [1, 1, 8]


def test_different_bodies_have_different_windows(board):
    hare, _, fox = board(Hunt).engine.agents

    assert hare.parts["view"].shape[1:] == (3, 3)
    assert fox.parts["view"].shape[1:] == (4, 3)


def test_window_has_a_channel_per_kind_that_is_seen(board):
    view = board(Meadow).engine.agents[0].parts["view"]

    assert view.labels == ("hedge", "berry", "sheep")
    assert view.shape == (3, 5, 5)
    assert view.dtype == np.uint8


def test_every_body_has_its_own_channel(board):
    labels = board(Hunt).engine.agents[0].parts["view"].labels

    assert labels == ("hedge", "berry", "hare", "fox")


def test_vector_has_an_entry_per_number_of_its_columns(board):
    part = board(Meadow).engine.agents[0].parts["self"]

    assert part.labels == ("energy", "compass.0", "compass.1", "season")
    assert part.shape == (4,)
    assert part.dtype == np.float32


@pytest.mark.parametrize(
    ("window", "reach"),
    [
        (Window(2), (2, 2, 2)),
        (Window(radius=0), (0, 0, 0)),
        (Window(ahead=3, behind=1, sides=2), (3, 1, 2)),
        (Window(ahead=4), (4, 0, 0)),
    ],
    ids=["radius", "own cell", "sides", "ahead"],
)
def test_window_reaches_as_far_as_declared(window, reach):
    assert window.reach == reach


def test_agents_are_masked_if_the_game_defines_legal_actions(board):
    assert all(spec.masked for spec in board(Choosy).engine.agents)
    assert not any(spec.masked for spec in board(Meadow).engine.agents)


def test_rules_of_two_games_share_no_declaration(board):
    one, other = board(Meadow), board(Meadow)

    assert one.rules.berry is not other.rules.berry
    assert one.rules.sheep is not other.rules.sheep


def test_rules_without_declarations_are_an_error_that_names_the_method():
    class Empty(GridGame):
        pass

    with pytest.raises(ConfigError, match="Empty has no declare method: write one that"):
        Empty(GridSettings())


@pytest.mark.parametrize(
    "agents", [4, 7, 250], ids=["one too many", "more than cells", "very many"]
)
def test_more_agents_than_start_spots_are_an_error_with_both_numbers(board, agents):
    message = f"game.agents is {agents}, .* room to start for only 3: lower game.agents"

    with pytest.raises(ConfigError, match=message):
        board(Meadow, agents=agents)


def test_game_without_a_map_has_the_size_of_its_settings(board):
    class Plain(Meadow):
        map = ""

        class Settings(GridSettings):
            height: int = Field(4, description="Rows.")
            width: int = Field(7, description="Columns.")

    layout = board(Plain).engine.layout

    assert (layout.height, layout.width) == (4, 7)


def test_game_without_map_and_size_is_an_error_that_says_what_to_add(board):
    class Nowhere(Meadow):
        map = ""

    with pytest.raises(ConfigError, match=r"Nowhere.*map.*height"):
        board(Nowhere)


def test_rules_without_a_body_are_an_error_that_says_so(board):
    class Ghosts(Meadow):
        def declare(self):
            super().declare()
            del self.sheep

    with pytest.raises(
        ConfigError,
        match=r"Ghosts declares 0 bodies, expected one: assign one to self in declare",
    ):
        board(Ghosts)


def test_two_bodies_without_a_roster_are_an_error_that_says_so(board):
    def two(game):
        game.wolf = Body(STAY, sees={"view": Window(radius=1)})

    with pytest.raises(ConfigError, match=r"Careless.*roster"):
        board(declaring(two))


def test_bodies_of_a_roster_that_are_not_attributes_keep_their_own_actions(board):
    class Listed(Meadow):
        def roster(self):
            sees = {"view": Window(radius=1)}
            return [Body(STAY, sees), Body(MOVES, sees)]

    listed = board(Listed)

    assert listed.choose(0, "stay").does("stay").all()
    assert listed.choose(1, "left").does("left").all()


@pytest.mark.parametrize(
    ("column", "message"),
    [("enrgy", "enrgy.*energy"), ("soil", "soil.*PerCell")],
    ids=["unknown", "per cell"],
)
def test_vector_of_an_unknown_column_is_an_error(board, column, message):
    def blind(game):
        game.soil = PerCell()
        game.sheep = Body(STAY, sees={"self": Vector(column)})

    with pytest.raises(ConfigError, match=message):
        board(declaring(blind))


@pytest.mark.parametrize(
    ("column", "name"),
    [
        (PerAgent, "cell"),
        (PerAgent, "reward"),
        (PerAgent, "move"),
        (PerWorld, "turn"),
        (PerWorld, "sprinkle"),
        (PerCell, "layers"),
    ],
    ids=["cell", "reward", "move", "turn", "sprinkle", "layers"],
)
def test_column_with_a_name_of_the_engine_is_refused(board, column, name):
    def clash(game):
        setattr(game, name, column())

    with pytest.raises(ConfigError, match=f"'{name}'"):
        board(declaring(clash))
