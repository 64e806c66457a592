"""Mistakes in games and players, each planted in the text of the coin game.

A mistake replaces one piece of text by another. `says` is what the one line about it must
contain; `at` is text of the line that it must name.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

COINS = Path(__file__).with_name("coins.py").read_text()


@dataclass(frozen=True)
class Mistake:
    """One mistake, and what must be said about it."""

    name: str
    old: str
    new: str
    says: tuple[str, ...]
    at: str = ""
    """Text of the line to be named; by default the first line of `new`."""
    is_note: bool = False
    """Whether it is legal, and so only noted."""
    also: tuple[tuple[str, str], ...] = ()
    """Other replacements that the mistake needs."""

    @property
    def text(self) -> str:
        """The game with the mistake in it."""
        text = COINS
        for old, new in ((self.old, self.new), *self.also):
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        return text

    @property
    def line(self) -> int:
        """The number of the line that must be named."""
        at = self.at or self.new.strip("\n").splitlines()[0]
        lines = self.text.splitlines()
        return next(i for i, line in enumerate(lines, start=1) if at in line)


DECLARE = COINS[COINS.index("    def declare") : COINS.index("    def before")]
SEES = 'sees={"view": grid.Window(radius=1), "self": grid.Vector("streak")}'
ACT = "        me.reward += own | stolen\n"
REWARD = "        me.reward += own | stolen"
CHOICE = '        return np.where(walls, self.spec.action_names.index("down"), draws)'

NEWCOMER = (
    Mistake(
        "declare is missing",
        DECLARE,
        "",
        ("Coins has no declare method: write one that assigns kinds, bodies and",),
        at="class Coins",
    ),
    Mistake(
        "unknown char in the map",
        "#P...#",
        "#P.x.#",
        ("uses 'x' in row 2, column 4, but no Kind has that char: known are # . P b r",),
    ),
    Mistake(
        "ragged map",
        "#P...#",
        "#P...",
        ("row 2 of the map of Coins has 5 cells, expected 6", "fill it up with '.'"),
    ),
    Mistake(
        "reward of another shape",
        REWARD,
        "        me.reward += np.ones(7)",
        ("raised in act(): ValueError: ", "(7,)", "one entry per world"),
    ),
    Mistake(
        "reward is not a number",
        REWARD,
        "        me.reward += np.where(own, np.nan, 0)",
        ("gave agent '", "a reward of nan in turn ", "finite"),
    ),
    Mistake(
        "action one too high",
        "        draws = (self.draw(turn)[:, 0] * 5).astype(int)",
        "        draws = (self.draw(turn)[:, 0] * 5).astype(int) + 1",
        ("honest: the player of agent '", "chose action 5", "integers from 0 to 4"),
        at="def act(self, observation",
    ),
    Mistake(
        "any over all worlds",
        ACT,
        "        if stolen.any():\n            me.reward -= 0.5\n" + ACT,
        ("one world decides for another", "`stolen.any()`", "use where=, np.where or a"),
    ),
    Mistake(
        "state on self",
        ACT,
        "        self.total = getattr(self, 'total', 0) + own\n"
        "        me.reward += 0.1 * self.total\n" + ACT,
        ("self.total (", "neither reset nor saved", "declare a column with grid.PerAgent"),
    ),
    Mistake(
        "np.random",
        ACT,
        "        me.reward += np.random.random()\n" + ACT,
        ("`np.random.random()`", "use world.uniform(), world.chance(p)"),
    ),
    Mistake(
        "sees is missing",
        f"            {SEES},\n",
        "",
        ("TypeError: Body.__init__() missing 1 required positional argument: 'sees'",),
        at="self.picker = grid.Body(",
    ),
    Mistake(
        "misspelt count",
        "        me.stolen += stolen",
        "        me.stole += stolen",
        ("agents have no column 'stole': did you mean 'stolen'?",),
    ),
    Mistake(
        "misspelt layer",
        '        world.clear(me.cell, layer="coins")',
        '        world.clear(me.cell, layer="coin")',
        ("Coins has no layer 'coin': did you mean 'coins'?",),
    ),
    Mistake(
        "misspelt action in does",
        ACT,
        "        me.reward -= 0.1 * me.does('sty')\n" + ACT,
        ("no Body has an action 'sty': did you mean 'stay'?",),
    ),
    Mistake(
        "too few start spots",
        "#...P#",
        "#....#",
        ("game.agents is 2, but there is room to start for only 1: lower game.agents or",),
        at="map = ",
    ),
    Mistake(
        "coins are never cleared",
        '        world.clear(me.cell, layer="coins")\n',
        "",
        ("agents were rewarded", "none was ever taken away", "world.clear(me.cell, layer="),
        at="def act(self, world",
        is_note=True,
    ),
    Mistake(
        "player returns floats",
        "        draws = (self.draw(turn)[:, 0] * 5).astype(int)",
        "        draws = self.draw(turn)[:, 0] * 5",
        ("returned (4,) float64", "expected (4,) integers", "convert it with .astype(int)"),
        at="def act(self, observation",
    ),
    Mistake(
        "player returns one number",
        CHOICE,
        "        return 3",
        ("returned () int64", "expected (4,) integers: return one action per world"),
        at="def act(self, observation",
    ),
    Mistake(
        "syntax error",
        "    def before(self, world: grid.World) -> None:",
        "    def before(self, world: grid.World) -> None",
        ("could not be imported", "SyntaxError: expected ':'"),
    ),
    Mistake(
        "column with a name in use",
        "        self.streak = grid.PerAgent(np.float32)",
        "        self.streak = grid.PerAgent(np.float32)\n"
        "        self.turn = grid.PerWorld()",
        ("Coins declares a column 'turn', but that name is in use: choose another",),
        at="self.turn",
    ),
    Mistake(
        "misspelt setting in training",
        '    training = {"discount": 0.95}',
        '    training = {"discout": 0.95}',
        ("Coins.training", "unknown setting 'discout': did you mean 'discount'?"),
    ),
    Mistake(
        "misspelt label in a player",
        '        walls = observation.parts["view"][:, labels.index("wall"), 0, 1] > 0',
        '        walls = observation.parts["view"][:, labels.index("wal"), 0, 1] > 0',
        ("raised in act(): ValueError", "'wal' is not there: did you mean 'wall'?"),
    ),
    Mistake(
        "probability of 2",
        "        world.sprinkle(self.red, self.blue, chance=self.settings.appear)",
        "        world.sprinkle(self.red, self.blue, chance=2)",
        ("the probability is 2, expected a number from 0 to 1",),
    ),
    Mistake(
        "column that was not declared",
        "    def before(self, world: grid.World) -> None:\n",
        "    def start(self, world: grid.World) -> None:\n        world.seen = 0\n\n"
        "    def before(self, world: grid.World) -> None:\n",
        ("worlds have no column 'seen': declare it with PerAgent, PerWorld or PerCell",),
        at="world.seen = 0",
    ),
    Mistake(
        "if on an array",
        ACT,
        "        if own:\n            me.reward += 1\n" + ACT,
        ("used as one truth value", "use where=, np.where or a mask per world"),
    ),
    Mistake(
        "one seat is paid more",
        ACT,
        "        me.reward += me.number == 0\n" + ACT,
        ("seat ", "standard errors", "look at `me.number`"),
        at="own, stolen = (red, blue) if me.number",
    ),
    Mistake(
        "unknown tile",
        'char="r", tile="gem"',
        'char="r", tile="gme"',
        ("the tile 'gme' of 'red' does not exist", "did you mean 'gem'?"),
        is_note=True,
    ),
    Mistake(
        "negative radius",
        "grid.Window(radius=1)",
        "grid.Window(radius=-1)",
        ("a Window has radius=-1, expected a whole number of cells, at least 0",),
    ),
    Mistake(
        "index too high",
        "        world.agents[1 - me.number].reward -= 2.0 * stolen",
        "        world.agents[2 - me.number].reward -= 2.0 * stolen",
        ("raised in act(): IndexError: tuple index out of range",),
    ),
    Mistake(
        "default outside its limits",
        "        appear: float = Field(0.1, ge=0, le=1",
        "        appear: float = Field(3, ge=0, le=1",
        ("the default of Coins's setting appear must be at most 1, got 3",),
    ),
    Mistake(
        "act without world",
        "    def act(self, world: grid.World, me: grid.Me) -> None:",
        "    def act(self, me: grid.Me) -> None:",
        ("Coins.act takes (self, me), expected (self, world, me)",),
    ),
    Mistake(
        "two kinds with one char",
        'char="b", tile="gem"',
        'char="r", tile="gem"',
        ("red and blue have the same char 'r': give them different ones",),
        at="self.blue",
        is_note=True,
    ),
    Mistake(
        "sees is not a dict",
        SEES,
        "sees=grid.Window(radius=1)",
        ("sees is a Window, expected a dict: write sees={'view': grid.Window(…)}",),
        at="self.picker = grid.Body(",
    ),
    Mistake(
        "kind on the layer of agents",
        'self.blue = grid.Kind(value=1.0, layer="coins"',
        'self.blue = grid.Kind(value=1.0, layer="agents"',
        ("a Kind has the layer 'agents', which is reserved for the agents",),
    ),
    Mistake(
        "reward is replaced",
        REWARD,
        "        me.reward = own | stolen",
        ("`me.reward = …` erases what other agents and rules gave it", "me.reward += …"),
        is_note=True,
    ),
    Mistake(
        "misspelt move",
        'actions=(*grid.MOVES, "stay")',
        'actions=("up", "rigth", "down", "left", "stay")',
        ("actions has 'rigth', which moves nothing: did you mean 'right'?",),
        at="self.picker = grid.Body(",
    ),
    Mistake(
        "actions is a text",
        'actions=(*grid.MOVES, "stay")',
        'actions="stay"',
        ("actions is the text 'stay', expected a tuple of names: write actions=('stay',)",),
        at="self.picker = grid.Body(",
    ),
)

BEFORE = "    def before(self, world: grid.World) -> None:"
STREAK = "        self.streak = grid.PerAgent(np.float32)"
DRAWS = "        draws = (self.draw(turn)[:, 0] * 5).astype(int)"
CLEAR = '        world.clear(me.cell, layer="coins")'

OTHERS = (
    Mistake(
        "counts is a text",
        '    counts = ("own", "stolen")',
        '    counts = ("own")',
        ("Coins.counts is 'own', expected a tuple of names: write ('own',)",),
    ),
    Mistake(
        "class of a column instead of a column",
        STREAK,
        "        self.streak = grid.PerAgent",
        ("sets self.streak to the class PerAgent: write self.streak = grid.PerAgent()",),
    ),
    Mistake(
        "misspelt method",
        BEFORE,
        "    def befor(self, world: grid.World) -> None:",
        ("nothing uses the method 'befor' of Coins: did you mean 'before'?",),
        is_note=True,
    ),
    Mistake(
        "settings without a base class",
        "    class Settings(grid.GridSettings):",
        "    class Settings:",
        ("Coins.Settings is not a subclass of grid.GridSettings",),
        at="class Settings",
    ),
    Mistake(
        "player without its base's constructor",
        '    """Walks at random, and stays where it sees no wall."""\n',
        "    def __init__(self, *args):\n        self.steps = 0\n",
        ("Honest.__init__ does not call super().__init__(*args)",),
    ),
    Mistake(
        "player that is not a class",
        '    players = {"honest": Honest}',
        '    players = {"honest": "Honest"}',
        ("player 'honest' of Coins is 'Honest', expected a subclass of Player",),
    ),
    Mistake(
        "misspelt argument",
        'self.red = grid.Kind(value=1.0, layer="coins"',
        'self.red = grid.Kind(valeu=1.0, layer="coins"',
        ("unexpected keyword argument 'valeu'", "did you mean 'value'?"),
    ),
    Mistake(
        "where is whole numbers",
        CLEAR,
        '        world.clear(me.cell, layer="coins", where=own.astype(int))',
        ("where is (4,) int64, expected (4,) bool, one per world",),
    ),
    Mistake(
        "action that nothing handles",
        '"stay"),',
        '"stay", "zap"),',
        ("the action 'zap' of 'picker' does nothing", "use me.does('zap')"),
        at="self.picker = grid.Body(",
        is_note=True,
    ),
    Mistake(
        "agents never move",
        "        me.move()\n",
        "",
        ("no agent ever moved in 60 turns: call me.move() in act",),
        at="def act(self, world",
        is_note=True,
    ),
    Mistake(
        "map is a list",
        '    map = """\n######\n#P...#\n#...P#\n######"""',
        '    map = ["######", "#P..P#", "######"]',
        ("the map of Coins is a list, expected text",),
    ),
    Mistake(
        "no reward",
        "        me.reward += own | stolen\n"
        "        world.agents[1 - me.number].reward -= 2.0 * stolen\n",
        "        own | stolen\n",
        ("`own | stolen` has no effect: write =, += or another assignment",),
        is_note=True,
    ),
    Mistake(
        "setting that is never used",
        "chance=self.settings.appear",
        "chance=0.1",
        ("nothing uses the setting 'appear'", "self.settings.appear"),
        at="appear: float",
        is_note=True,
    ),
    Mistake(
        "misspelt setting",
        "chance=self.settings.appear",
        "chance=self.settings.apear",
        ("has no attribute 'apear'", "did you mean 'appear'?"),
    ),
    Mistake(
        "misspelt variable",
        "        me.own += own",
        "        me.own += onw",
        ("name 'onw' is not defined", "did you mean 'own'?"),
    ),
    Mistake(
        "name of a kind instead of the kind",
        "        red, blue = world.has(self.red, me.cell), world.has(self.blue, me.cell)",
        "        red, blue = world.has('red', me.cell), world.has(self.blue, me.cell)",
        ("got 'red' for a kind, expected the Kind itself",),
    ),
    Mistake(
        "list of the class",
        ACT,
        "        self.seen.append(1)\n        me.reward += 0.01 * len(self.seen)\n" + ACT,
        ("Coins.seen (", "neither reset nor saved", "declare a column"),
        also=(("    counts =", "    seen = []\n    counts ="),),
    ),
    Mistake(
        "player with state on itself",
        DRAWS,
        "        self.steps = getattr(self, 'steps', 0) + 1\n"
        "        draws = (self.draw(turn)[:, 0] * 5 + self.steps // 7).astype(int) % 5",
        ("honest: it chose other actions", "self.steps (", "keep it in self.memory"),
    ),
    Mistake(
        "player with state that repeats",
        CHOICE,
        "        self.steps = getattr(self, 'steps', 0) + 1\n"
        "        return np.full(self.worlds, self.steps % 2)",
        ("honest: it chose other actions", "self.steps (", "keep it in self.memory"),
    ),
    Mistake(
        "game with state that repeats",
        "        world.sprinkle(self.red, self.blue, chance=self.settings.appear)\n",
        "        self.ticks = getattr(self, 'ticks', 0) + 1\n"
        "        world.sprinkle(self.red, self.blue, chance=0.5 * (self.ticks % 2))\n",
        ("differed in turn", "self.ticks (", "neither reset nor saved"),
    ),
    Mistake(
        "player that tells agents apart by their ids",
        CHOICE,
        "        if self.spec.id == '0':\n            return draws * 0\n" + CHOICE,
        ("random play is fair: look at `self.spec.id == '0'` (", "ids are text, such as"),
    ),
    Mistake(
        "kinds of two layers in one sprinkle",
        'self.blue = grid.Kind(value=1.0, layer="coins"',
        'self.blue = grid.Kind(value=1.0, layer="blues"',
        ("sprinkle() got kinds of the layers coins, blues, expected one layer",),
        at="world.sprinkle(",
    ),
    Mistake(
        "count that is only roughly right",
        "        me.stolen += stolen\n",
        "        me.stolen_coins += stolen\n",
        ("agents have no column 'stolen_coins': did you mean 'stolen'? If not,",),
    ),
    Mistake(
        "player that decides for all worlds",
        CHOICE,
        "        draws[:] = 4 * walls.any()\n        return draws",
        ("honest: it chose other actions", "`walls.any()`", "use np.where"),
    ),
    Mistake(
        "player with np.random",
        DRAWS,
        "        draws = np.random.randint(5, size=self.worlds)",
        ("honest: `np.random.randint(5, size=self.worlds)`", "use self.draw(turn)"),
    ),
    Mistake(
        "player that changes its observation",
        DRAWS,
        '        observation.parts["view"][:] = 0\n' + DRAWS,
        ("honest: ", "act() changes part 'view' of its observation: change a copy"),
        at="def act(self, observation",
    ),
    Mistake(
        "action mask of another shape",
        BEFORE,
        "    def legal(self, world, me):\n"
        "        return np.ones((world.worlds, 4), bool)\n\n" + BEFORE,
        ("legal actions as (4, 4) bool, expected (4, 5) bool",),
    ),
    Mistake(
        "random from Python",
        ACT,
        "        me.reward += random.random()\n" + ACT,
        ("`random.random()`", "use world.uniform()"),
        also=(("import numpy as np\n", "import random\n\nimport numpy as np\n"),),
    ),
    Mistake(
        "beam of even width",
        ACT,
        "        list(me.beam(self.red, 2, width=2))\n" + ACT,
        ("a beam has width 2, expected an odd number",),
    ),
    Mistake(
        "default in place of the dtype",
        STREAK,
        "        self.streak = grid.PerAgent(0)",
        ("a PerAgent has the dtype 0, expected a numpy type", "PerAgent(default=…)"),
    ),
    Mistake(
        "kind at class level",
        "        world.sprinkle(self.red, self.blue, ",
        "        world.sprinkle(self.gold, self.blue, ",
        ("the Kind of coins.py, line 30 was not declared: assign it to self in declare",),
        also=(("    counts =", "    gold = grid.Kind(value=1.0)\n    counts ="),),
    ),
    Mistake(
        "lifetime of 0",
        'char="b", tile="gem"',
        'char="b", lifetime=0',
        ("a Kind has the lifetime 0, expected a whole number of turns, at least 1",),
    ),
    Mistake(
        "cell is assigned",
        "        me.move()\n",
        "        me.move()\n        me.cell = me.cell\n",
        ("`me.cell = …` changes what the engine keeps: use me.place(cells)",),
        at="me.cell = me.cell",
        is_note=True,
    ),
    Mistake(
        "act returns the reward",
        REWARD,
        "        return own | stolen",
        ("act() returns `own | stolen`, which nothing uses",),
        is_note=True,
    ),
    Mistake(
        "indented map",
        '    map = """\n######\n#P...#\n#...P#\n######"""',
        '    map = """\n    ######\n    #P...#\n    #...P#\n    ######"""',
        ("every row of the map begins with 4 spaces, which are empty cells",),
        is_note=True,
    ),
    Mistake(
        "column that a vector does not find",
        'grid.Vector("streak")',
        'grid.Vector("streek")',
        ("a Vector of Coins shows 'streek', which is not declared", "mean 'streak'?"),
        at="self.picker = grid.Body(",
    ),
    Mistake(
        "more agents than the rules are for",
        "        agents: int = Field(2, ge=2, le=2, ",
        "        agents: int = Field(2, ge=2, ",
        ("with game.agents=4", "too many values to unpack", "Field(2, ge=1, le=2"),
        at="one, two = world.agents",
        also=((ACT, "        one, two = world.agents\n" + ACT), ("#...P#", "#.PPP#")),
    ),
    Mistake(
        "count with a name in use",
        '    counts = ("own", "stolen")',
        '    counts = ("own", "stolen", "reward")',
        ("Coins has a count 'reward', but that name is in use",),
    ),
    Mistake(
        "player without a return",
        CHOICE,
        "        np.where(walls, 2, draws)",
        ("returned nothing (is there a return?)",),
        at="def act(self, observation",
    ),
    Mistake(
        "memory of one number",
        '    """Walks at random, and stays where it sees no wall."""\n',
        "    def __init__(self, *args):\n        super().__init__(*args)\n"
        "        self.memory['steps'] = 0\n",
        ("Honest keeps 0 in memory['steps'], expected an array with one entry per world",),
        at="self.memory['steps']",
    ),
    Mistake(
        "memory that begins during play",
        DRAWS,
        "        self.memory['last'] = walls\n" + DRAWS,
        ("memory['last'] was added during play: add it in __init__",),
    ),
    Mistake(
        "names of actions",
        CHOICE,
        "        return np.where(walls, 'down', 'up')",
        ("returned names", "self.spec.action_names.index('"),
        at="def act(self, observation",
    ),
    Mistake(
        "parts without their name",
        '        walls = observation.parts["view"][:, labels.index("wall"), 0, 1] > 0',
        '        walls = observation["view"][:, labels.index("wall"), 0, 1] > 0',
        ("'Observation' object is not subscriptable", "observation.parts['…']"),
    ),
    Mistake(
        "walls on the layer of coins",
        'self.wall = grid.Kind(solid=True, layer="walls"',
        'self.wall = grid.Kind(solid=True, layer="coins"',
        ("the solid 'wall' disappears", "layer 'coins' is shared with other kinds"),
        is_note=True,
        also=((CLEAR, '        world.clear(me.target, layer="coins")'),),
    ),
    Mistake(
        "every episode ends at once",
        ACT,
        "        world.end(True)\n" + ACT,
        ("every episode ended after its first turn: check where world.end",),
        at="def act(self, world",
        is_note=True,
    ),
    Mistake(
        "cells for a mask",
        BEFORE,
        "    def start(self, world):\n        world.fill(self.red, np.arange(9))\n\n"
        + BEFORE,
        ("the mask is int64, expected bools, one per world and cell",),
        at="world.fill",
    ),
    Mistake(
        "nothing to observe",
        SEES,
        'sees={"self": grid.Vector()}',
        ("declares agent '0' with nothing to observe",),
        at="def declare",
    ),
    Mistake(
        "column that wraps around",
        "        self.streak = grid.PerAgent(np.float32)",
        "        self.streak = grid.PerAgent(np.uint8)",
        ("the column 'streak' wrapped around, since uint8 holds no smaller or larger",),
        is_note=True,
        also=(
            (
                "        me.streak = np.where(own, me.streak + 1, 0)",
                "        me.streak -= own",
            ),
        ),
    ),
)
