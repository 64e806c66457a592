"""A board for testing grid games: build a small game, play turns by action names."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.games.gridworld import GridEngine


class Board:
    """One engine, with short methods for what tests do repeatedly."""

    def __init__(self, rules, worlds=1, seed=0, first_world=0, **settings):
        self.rules = rules(rules.Settings(**settings))
        self.engine = GridEngine(self.rules, worlds, seed, first_world)
        self.world = self.engine.world
        self.agents = self.world.agents
        self.seen, self.active, self.legal = {}, {}, {}
        self.phases = ()

    def turn(self, *actions):
        """Play a turn and return its outcome; without actions all agents stay.

        One action per agent: a name, or a list with one name per world.
        """
        actions = actions or ("stay",) * len(self.agents)
        self.phases = self.engine.begin_turn()
        for phase in self.phases:
            self.look(phase)
            self.engine.act(phase, self._numbers(phase, actions))
        return self.engine.end_turn()

    def look(self, phase):
        """Keep the observations of the agents of a phase, by agent."""
        seen = self.engine.observe(phase)
        for place, i in enumerate(phase):
            self.seen[i] = seen.parts[place]
            self.active[i] = seen.active[place]
            self.legal[i] = seen.legal[place]

    def _numbers(self, phase, actions):
        return np.stack([self._choices(i, actions[i]) for i in phase], axis=1)

    def _choices(self, agent, names):
        every = self.engine.agents[agent].action_names
        if isinstance(names, str):
            names = [names] * self.engine.worlds
        return np.array([every.index(name) for name in names])

    def cell(self, row, column):
        """Return the number of a cell of the map."""
        layout = self.engine.layout
        return int(layout.inside[row * layout.width + column])

    def cells(self, *spots):
        """Return one cell per world, from one (row, column) per world."""
        return np.array([self.cell(*spot) for spot in spots])

    def mask(self, *spots):
        """Return a mask of the same cells in every world."""
        mask = np.zeros(self.engine.layout.cells, bool)
        mask[[self.cell(*spot) for spot in spots]] = True
        return mask

    def on_map(self, array, world=0):
        """Return a (worlds, cells) array of one world as (height, width)."""
        layout = self.engine.layout
        return array[world, layout.inside].reshape(layout.height, layout.width)

    def place(self, agent, row, column, facing=0):
        """Put an agent somewhere, in every world."""
        me = self.agents[agent]
        me.place(np.full(self.engine.worlds, self.cell(row, column)))
        me.facing = facing

    def spot(self, agent, world=0):
        """Return where an agent stands, (row, column); (-1, -1) where it is out."""
        row, column = self.engine.facts()["position"][world, agent]
        return int(row), int(column)

    def choose(self, agent, action):
        """Choose an action for an agent, without applying the rules."""
        me = self.agents[agent]
        me.choose(self._choices(agent, action))
        return me

    def show(self, world=0):
        """Return a world as a list of lines."""
        return self.engine.show(world).splitlines()


@pytest.fixture
def board():
    """Build a game: board(Rules, worlds=2, turns=5, …)."""
    return Board
