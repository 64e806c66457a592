"""Grid games: the rules are written for one agent, and played in all worlds at once."""

from rookery.games.gridworld.agent import Me
from rookery.games.gridworld.engine import GridEngine
from rookery.games.gridworld.names import MOVES, STEPS, TURNS
from rookery.games.gridworld.rules import (
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
from rookery.games.gridworld.world import World

__all__ = [
    "MOVES",
    "STEPS",
    "TURNS",
    "Body",
    "GridEngine",
    "GridGame",
    "GridSettings",
    "Kind",
    "Me",
    "PerAgent",
    "PerCell",
    "PerWorld",
    "Vector",
    "Window",
    "World",
]
