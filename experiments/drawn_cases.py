"""Legal configurations drawn at random, for `drawn.py`.

A case is a game and overrides of the command line, so that any case can be run by hand. The
same number always draws the same case.
"""

from __future__ import annotations

import random
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

HERE = Path(__file__).parent
ODD, OWN = HERE / "odd_games.py", HERE / "own_agents.py"

SMALLEST = {
    "rounds": "3",
    "turns_per_round": "6",
    "worlds": "2",
    "updates_per_round": "2",
    "batch_size": "4",
    "replay.warmup": "4",
    "replay.capacity": "200",
    "network.width": "16",
    "network.quantiles": "2",
    "iqn.acting_quantiles": "2",
    "recurrent.width": "16",
    "recurrent.sequence": "8",
    "epsilon.steps": "50",
    "frames": "1",
}
"""Small values for settings that a case does not have; defaults would take minutes."""

ALGORITHMS = ("iqn", "dqn", "ppo", "vtrace", "recurrent_dqn", "recurrent_ppo", "tabular")


@dataclass(frozen=True)
class Case:
    """A game and settings by key, with values as on the command line."""

    game: str
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def overrides(self) -> list[str]:
        """The settings as arguments of the command line."""
        return [f"{key}={value}" for key, value in (SMALLEST | self.settings).items()]

    @property
    def command(self) -> str:
        """The command that trains this case."""
        return shlex.join(["rookery", "train", self.game, *self.overrides])

    @property
    def code(self) -> list[str]:
        """The options that name user code again, as resuming requires."""
        custom = {value for value in self.settings.values() if value.startswith(str(OWN))}
        game = ["--game", self.game] if ":" in self.game else []
        return [*game, *(x for name in sorted(custom) for x in ("--algorithm", name))]

    def smaller(self) -> Iterator[Case]:
        """Yield cases with fewer settings, those with the fewest first."""
        keys, size = list(self.settings), len(self.settings)
        while size := size // 2:
            for start in range(0, len(keys), size):
                left = keys[:start] + keys[start + size :]
                yield replace(self, settings={key: self.settings[key] for key in left})

    def kinds(self) -> Iterator[str]:
        """Yield features of this case, to be counted."""
        get = (SMALLEST | self.settings).get
        yield f"game: {self.game.replace(str(HERE) + '/', '')}"
        default = get("algorithm", "iqn")
        others = {v for k, v in self.settings.items() if k.endswith(".algorithm")}
        for algorithm in {default, *others}:
            yield f"algorithm: {algorithm.replace(str(OWN), 'custom ')}"
        yield f"schedule: {get('schedule', 'pipelined')}"
        yield f"storage: {get('storage', 'memory')}"
        yield f"replay: {get('replay.kind', 'uniform')}"
        yield f"checkpoints.replay: {get('checkpoints.replay', 'true')}"
        for kind in ("player", "learning"):
            if any(key.endswith(f".{kind}") for key in self.settings):
                yield f"agents: {'scripted' if kind == 'player' else 'frozen'}"
        if len(others) > 1 or (others and others != {default}):
            yield "agents: mixed"


def draw_case(number: int) -> Case:
    """Return the case with this number."""
    draw = random.Random(f"case {number}")
    game, ids, settings = _game(draw)
    settings |= _rounds(draw)
    settings |= _agent(draw, draw.choice(ALGORITHMS))
    settings |= _other_agents(draw, game, ids, settings)
    return Case(game, _with_enough_rows(settings))


def _with_enough_rows(settings: dict[str, str]) -> dict[str, str]:
    """Limit batch size and warm-up to the rows there will be, so that most agents learn."""
    merged = SMALLEST | settings
    turns = (int(merged["rounds"]) - 2) * int(merged["turns_per_round"])
    rows = max(1, turns * int(merged["worlds"]) // 3)
    keys = ("batch_size", "replay.warmup")
    return settings | {key: str(min(rows, int(merged[key]))) for key in keys}


def _some(
    draw: random.Random, probability: float, **settings: Sequence[object]
) -> dict[str, str]:
    """Draw values for some of the settings; `__` in a key stands for a dot."""
    return {
        key.replace("__", "."): str(draw.choice(values))
        for key, values in settings.items()
        if draw.random() < probability
    }


GRIDS = {
    # Numbers of agents, and scripted players, by name.
    "treasurehunt": ((1, 2, 3, 4), ("random", "forager")),
    "gathering": ((2, 3), ("random", "greedy")),
    "harvest": ((2, 4), ("random", "eater")),
    "cleanup": ((2, 3), ("random", "cleaner")),
    "staghunt": ((2, 3), ("random", "hare_hunter")),
    "tag": ((2, 3), ("random", "sprinter")),
    "gambling": ((1, 2), ("random", "risky")),
}
MATRICES = ("iterated_chicken", "iterated_prisoners_dilemma", "iterated_stag_hunt")


def _game(draw: random.Random) -> tuple[str, list[str], dict[str, str]]:
    """Return a game, the ids of its agents, and its settings."""
    kinds = ["grid", "grid", "grid", "matrix", "herd", "herd", "queue", "solo", "published"]
    kind = draw.choice(kinds)
    if kind == "grid":
        return _grid(draw)
    if kind == "matrix":
        settings = {"game.turns": str(draw.choice([1, 4, 13]))}
        settings |= _some(
            draw, 0.4, game__stop=[0.2], game__history=["[1,3]", "[2,2]", "[1,1]"]
        )
        return draw.choice(MATRICES), ["0", "1"], settings
    if kind == "published":
        return draw.choice(list(_published(draw)))
    length = {"game.length": str(draw.choice([1, 2, 5, 9]))}
    if kind == "solo":
        copies = draw.choice([1, 2, 3])
        settings = length | {"game.copies": str(copies)}
        return f"gymnasium:{ODD}:Solo", [str(i) for i in range(copies)], settings
    size, names = draw.choice([1, 2, 3, 4]), draw.choice(["plain", "odd"])
    ids = {"plain": ["a0", "a1", "a2", "a3"], "odd": ["b c.d", "a", "a/b", "[ü]*"]}[names]
    settings = length | {"game.size": str(size), "game.names": names}
    if kind == "queue":
        size = max(2, size)
        settings |= {"game.size": str(size)} | _some(draw, 0.7, discount_per=["step"])
        return f"pettingzoo:{ODD}:queue", ids[:size], settings
    settings |= _some(
        draw,
        0.7,
        game__sees=["vector", "grid", "dict", "scalar", "counts"],
        game__ends=["terminated", "truncated", "either"],
        game__deaths=["true", "false"],
        game__reward=["own", "sum"],
    )
    return f"pettingzoo:{ODD}:herd", ids[:size], settings


def _published(draw: random.Random) -> Iterator[tuple[str, list[str], dict[str, str]]]:
    """Yield published games."""
    cycles = {"game.max_cycles": str(draw.choice([3, 25]))}
    size = draw.choice([2, 3])
    agents = [f"agent_{i}" for i in range(size)]
    yield "pettingzoo:mpe2.simple_spread_v3", agents, cycles | {"game.N": str(size)}
    step = {"discount_per": "step"}
    yield "pettingzoo:pettingzoo.classic.tictactoe_v3", ["player_1", "player_2"], step
    copies = [str(i) for i in range(size)]
    yield "gymnasium:CartPole-v1", copies, {"game.copies": str(size)}
    foraging = "gymnasium:lbforaging/Foraging-5x5-2p-1f-v3"
    yield foraging, ["0", "1"], {"game.max_episode_steps": str(draw.choice([5, 20]))}


def _grid(draw: random.Random) -> tuple[str, list[str], dict[str, str]]:
    name = draw.choice(list(GRIDS))
    agents = draw.choice(GRIDS[name][0])
    settings = {"game.agents": str(agents), "game.turns": str(draw.choice([1, 3, 7, 20]))}
    settings |= _some(
        draw, 0.4, game__acting=["in_turn", "simultaneous"], game__order=["fixed"]
    )
    if name == "gathering":
        settings |= {"game.hits": "1", "game.out": str(draw.choice([2, 9, 25]))}
    return name, [str(i) for i in range(agents)], settings


def _rounds(draw: random.Random) -> dict[str, str]:
    """Draw settings of the run as a whole."""
    settings = {
        "seed": str(draw.randrange(1000)),
        "rounds": str(draw.choice([2, 3, 4, 5, 7])),
        "turns_per_round": str(draw.choice([1, 2, 5, 8, 8, 13, 20])),
        "worlds": str(draw.choice([1, 1, 2, 3, 5, 16])),
    }
    schedule = draw.choices(["pipelined", "sync", "async"], [10, 9, 1])
    settings |= {"schedule": schedule[0]}
    settings |= _some(
        draw,
        0.4,
        storage=["disk"],
        checkpoints__every_rounds=[1, 1, 2, 3],
        checkpoints__replay=["false", "true"],
        checkpoints__weights_every_rounds=[1],
        evaluate__every_rounds=[1, 2],
        record__every_rounds=[2],
    )
    return settings


def _agent(draw: random.Random, algorithm: str, prefix: str = "") -> dict[str, str]:
    """Draw the settings of an algorithm."""
    settings = {"algorithm": algorithm, **_common(draw)}
    if algorithm in ("iqn", "dqn", "recurrent_dqn", "tabular"):
        settings |= _values(draw, algorithm)
    if algorithm in ("ppo", "vtrace", "recurrent_ppo"):
        settings |= _policy(draw, "vtrace" if algorithm == "vtrace" else "ppo")
    if algorithm.startswith("recurrent"):
        settings |= _recurrent(draw, int(settings.get("n_step", "3")))
    return {prefix + key: value for key, value in settings.items()}


def _common(draw: random.Random) -> dict[str, str]:
    return _some(
        draw,
        0.5,
        frames=[1, 2, 3, 7],
        n_step=[1, 2, 3, 5],
        batch_size=[1, 2, 3, 5, 8, 16, 33],
        updates_per_round=[0, 1, 1, 2, 3, 4, 6],
        learning_rate=[0.0001, 0.003, 0.05],
        discount=[0.0, 0.9, 1.0],
        network__width=[1, 8, 13, 16, 20, 32, 33, 48],
        network__depth=[1, 2, 3],
        network__channels=[0, 16],
        reward__scale=[0.1, 3.0],
        reward__clip=[0.5],
        reward__standardise=["true"],
        rate__schedule=["linear", "cosine", "constant"],
        rate__warmup=[3],
        gradient__clip=[0.01, 1.0],
    )


def _values(draw: random.Random, algorithm: str) -> dict[str, str]:
    """Draw settings of value-based algorithms."""
    settings = _some(
        draw,
        0.5,
        replay__capacity=[60, 100, 300, 1000],
        replay__warmup=[1, 5, 20],
        replay__exponent=[0.0, 1.0],
        target__every=[1, 3],
        target__rate=[1.0, 0.05],
        epsilon__start=[0.0, 1.0],
        epsilon__steps=[10, 300],
        epsilon__temperature=[0.5],
    )
    if algorithm == "tabular":
        return settings | {"tabular.entries": "2000"}
    settings |= _some(draw, 0.3, gradient__accumulate=[2, 3])
    settings |= _some(draw, 0.4, replay__kind=["prioritised"])
    part = "iqn" if algorithm == "iqn" else "dqn"
    parts = {
        f"{part}__double": ["true", "false"],
        f"{part}__dueling": ["true", "false"],
        f"{part}__noisy": ["true", "false"],
        f"{part}__gap": [0.5],
    }
    if algorithm != "recurrent_dqn":
        parts[f"{part}__retrace"] = [0.0, 0.8, 1.0]
    return settings | _some(draw, 0.4, **parts)


def _policy(draw: random.Random, part: str) -> dict[str, str]:
    """Draw settings of actor-critic algorithms."""
    common: dict[str, list[object]] = {
        f"{part}__passes": [1, 2],
        f"{part}__minibatches": [1, 2, 3, 5],
        f"{part}__entropy": [0.0, 0.1],
    }
    special = {"vtrace__rho_bar": [0.5], "vtrace__c_bar": [0.5]}
    special = special if part == "vtrace" else {"ppo__gae": [0.0, 1.0]}
    return _some(draw, 0.6, **common) | _some(draw, 0.4, **special)


def _recurrent(draw: random.Random, n_step: int) -> dict[str, str]:
    burn_in = draw.choice([0, 1, 4])
    shortest = max(2, burn_in + n_step + 1)
    return {
        "recurrent.width": str(draw.choice([16, 32, 48, 80])),
        "recurrent.sequence": str(shortest + draw.choice([0, 1, 5, 12])),
        "recurrent.burn_in": str(burn_in),
    }


def _other_agents(
    draw: random.Random, game: str, ids: Sequence[str], settings: dict[str, str]
) -> dict[str, str]:
    """Draw settings of agents that differ: mixed, scripted, frozen, custom."""
    drawn: dict[str, str] = {}
    for agent in ids[1:]:
        kind = draw.choices(
            ["same", "other", "scripted", "frozen", "custom"], [6, 2, 1, 1, 1]
        )
        prefix = f'agents."{agent}".'
        if kind == ["other"]:
            drawn |= _other(draw, prefix)
        elif kind == ["scripted"]:
            players = GRIDS[game][1] if game in GRIDS else ("random",)
            drawn[f"{prefix}player"] = draw.choice(players)
        elif kind == ["frozen"]:
            drawn[f"{prefix}learning"] = "false"
        elif kind == ["custom"] and settings.get("replay.kind") != "prioritised":
            drawn[f"{prefix}algorithm"] = f"{OWN}:{draw.choice(['Net', 'Linear'])}"
    return drawn


def _other(draw: random.Random, prefix: str) -> dict[str, str]:
    """Draw another algorithm, or another rate in the same group."""
    if draw.random() < 0.4:
        free = {"learning_rate": [0.01], "updates_per_round": [1, 4], "discount": [0.5]}
        return {prefix + k: v for k, v in _some(draw, 0.7, **free).items()}
    choices = [a for a in ALGORITHMS if a not in ("tabular", "recurrent_dqn")]
    settings = _agent(draw, draw.choice(choices), prefix)
    # Retrace and burn-in of one algorithm may not fit the n_step of another.
    return {k: v for k, v in settings.items() if not k.endswith("n_step")}
