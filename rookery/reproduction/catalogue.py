"""The named results: what is trained, what is measured, and what is expected.

A result is only listed here if it was measured with these settings, or has a named source.
What the source says is `expected`; where nobody has read it in the source itself, it is
not confirmed. `accepts` is the range of estimates that count as reproduced.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rookery.errors import ConfigError, nearest
from rookery.reproduction.measures import (
    Measure,
    mean_return,
    mean_reward,
    mean_sum,
    share_at,
    share_of_agents,
    share_of_player,
    share_that_takes,
)
from rookery.reproduction.published import (
    ACTOR_CRITICS,
    CARTPOLE_GAME,
    CARTPOLES,
    COMMON,
    FORAGING,
    FORAGING_GAME,
    SPREAD,
    SPREAD_GAME,
    VALUE_BASED,
)

LONG_MINUTES = 15.0
"""A result that takes longer than this on two cores is marked as long."""


@dataclass(frozen=True)
class Result:
    """A result that can be reached again."""

    name: str
    summary: str
    game: str
    settings: Mapping[str, Any]
    """By dotted name; the seed is the only other thing that cells differ in."""
    seeds: int
    measure: Measure
    expected: float
    """The mean over seeds that the source gives."""
    accepts: tuple[float, float]
    """The lowest and the highest mean over seeds that count as reproduced."""
    source: str
    minutes: float
    """About how long it takes on two cores."""
    episodes: int = 20
    """Greedy episodes after training, for each seed and player."""
    is_confirmed: bool = True
    """Whether the expected value was read in its source."""

    @property
    def is_long(self) -> bool:
        """Whether it takes longer than a coffee."""
        return self.minutes > LONG_MINUTES

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        plain = {k: v for k, v in asdict(self).items() if k not in ("measure", "accepts")}
        return {
            **plain,
            "measure": self.measure.text,
            "accepts": {"low": self.accepts[0], "high": self.accepts[1]},
            "long": self.is_long,
        }


COURSE = "CoursIA, pull request 13319 (github.com/jsboige/CoursIA)"
EPYMARL = "Papoudakis et al. (2021), table 3"

ONE_SHOT: dict[str, Any] = {
    "algorithm": "tabular",
    "rounds": 1_200,
    "turns_per_round": 2,
    "worlds": 10,
    "workers": 0,
    "schedule": "sync",
    "updates_per_round": 1,
    "batch_size": 10,
    "replay.capacity": 20,
    "replay.warmup": 1,
    "tabular.entries": 2,
    "epsilon.end": 0.05,
    "epsilon.steps": 8_000,
    "checkpoints.every_rounds": 1_200,
    "checkpoints.weights_every_rounds": 0,
}
"""12,000 episodes of one turn; each is learned from about once, with ε from 1 to 0.05."""
REPEATED: dict[str, Any] = {
    **ONE_SHOT,
    "game.turns": 25,
    "rounds": 480,
    "turns_per_round": 26,
    "worlds": 1,
    "batch_size": 25,
    "replay.capacity": 26,
    "checkpoints.every_rounds": 480,
}
"""480 episodes of 25 turns, otherwise the same."""
POLICIES: dict[str, Any] = {
    "algorithm": "ppo",
    "game.turns": 25,
    "rounds": 200,
    "turns_per_round": 26,
    "worlds": 8,
    "workers": 0,
    "learning_rate": 3e-3,
    "network.width": 16,
    "ppo.entropy": 0.01,
    "reward.scale": 0.1,
    "checkpoints.weights_every_rounds": 0,
}
DILEMMA: dict[str, Any] = {
    "algorithm": "dqn",
    "rounds": 60,
    "turns_per_round": 25,
    "worlds": 4,
    "workers": 0,
    "frames": 1,
    "n_step": 1,
    "discount": 0.95,
    "learning_rate": 0.001,
    "network.width": 32,
    "replay.warmup": 100,
    "epsilon.steps": 4000,
    "epsilon.end": 0.01,
    "game.turns": 25,
    "game.both_first": -1.0,
    "game.both_second": -2.0,
    "game.tempted": 0.0,
    "game.betrayed": -3.0,
    "checkpoints.weights_every_rounds": 0,
}
"""The settings of docs/games/matrix-games.md, with the payoffs of Foerster et al."""
STAG: dict[str, Any] = {
    "algorithm": "dqn",
    "frames": 1,
    "n_step": 1,
    "discount": 0.5,
    "learning_rate": 0.002,
    "batch_size": 32,
    "updates_per_round": 10,
    "network.width": 16,
    "epsilon.steps": 800,
    "replay.warmup": 40,
    "replay.capacity": 400,
    "rounds": 80,
    "turns_per_round": 20,
    "worlds": 1,
    "workers": 0,
    "game.turns": 20,
    "game.both_second": 1.0,
    "game.tempted": 1.6,
    "checkpoints.weights_every_rounds": 0,
}
"""The settings of docs/games/matrix-games.md."""

CATALOGUE = (
    Result(
        name="climbing-independent",
        summary="independent Q-learners miss the optimum of the climbing game",
        game="climbing",
        settings=ONE_SHOT,
        seeds=20,
        measure=share_at(11.0),
        expected=0.0,
        accepts=(0.0, 0.1),
        source=f"{COURSE}: 0 of 20 seeds",
        minutes=1,
    ),
    Result(
        name="climbing-hysteretic",
        summary="hysteretic Q-learners find it",
        game="climbing",
        settings={**ONE_SHOT, "tabular.hysteresis": 0.1},
        seeds=20,
        measure=share_at(11.0),
        expected=1.0,
        accepts=(0.9, 1.0),
        source=f"{COURSE}: 20 of 20 seeds",
        minutes=1,
    ),
    Result(
        name="climbing-lenient",
        summary="lenient learners find it",
        game="climbing",
        settings={**ONE_SHOT, "tabular.leniency": 1e6, "tabular.cooling": 0.9995},
        seeds=20,
        measure=share_at(11.0),
        expected=1.0,
        accepts=(0.9, 1.0),
        source="Wei and Luke (2016): LMRL2 finds the optimum in nearly all runs",
        minutes=1,
        is_confirmed=False,
    ),
    Result(
        name="climbing-repeated",
        summary="independent PPO settles on the second best, (b, b), for 25 turns",
        game="climbing",
        settings=POLICIES,
        seeds=10,
        measure=mean_return("episode of 25 turns"),
        expected=175.0,
        accepts=(170.0, 180.0),
        source=f"{EPYMARL}: IPPO 175 ± 0",
        minutes=2,
        is_confirmed=False,
    ),
    Result(
        name="penalty-0",
        summary="without a penalty, independent learners agree on an optimum",
        game="penalty",
        settings={**REPEATED, "game.penalty": 0.0},
        seeds=10,
        measure=mean_return("episode of 25 turns"),
        expected=250.0,
        accepts=(240.0, 250.0),
        source=f"{EPYMARL}: 250 for all independent learners",
        minutes=1,
        is_confirmed=False,
    ),
    Result(
        name="penalty-100",
        summary="with a penalty of −100 they take the safe action, and get a fifth",
        game="penalty",
        settings={**REPEATED, "game.penalty": -100.0},
        seeds=10,
        measure=mean_return("episode of 25 turns"),
        expected=50.0,
        accepts=(50.0, 60.0),
        source=f"{EPYMARL}: 50 for all independent learners",
        minutes=1,
        is_confirmed=False,
    ),
    Result(
        name="prisoners-dilemma",
        summary="naive learners defect against each other",
        game="iterated_prisoners_dilemma",
        settings=DILEMMA,
        seeds=10,
        measure=mean_reward(25),
        expected=-1.98,
        accepts=(-2.05, -1.85),
        source="Foerster et al. (2018): naive Q-learners −1.98 ± 0.14",
        minutes=1,
        is_confirmed=False,
    ),
    Result(
        name="stag-safe",
        summary="where hunting the stag alone costs nothing, all seeds end in stag",
        game="iterated_stag_hunt",
        settings={**STAG, "game.betrayed": 1.0},
        seeds=20,
        measure=share_that_takes("stag", 20),
        expected=1.0,
        accepts=(0.9, 1.0),
        source="docs/games/matrix-games.md: 20 of 20 seeds",
        minutes=1,
    ),
    Result(
        name="stag-risky",
        summary="where it costs two hares, none does",
        game="iterated_stag_hunt",
        settings={**STAG, "game.betrayed": -1.0},
        seeds=20,
        measure=share_that_takes("stag", 20),
        expected=0.0,
        accepts=(0.0, 0.1),
        source="docs/games/matrix-games.md: 0 of 20 seeds",
        minutes=1,
    ),
    Result(
        name="cartpole-ppo",
        summary="PPO solves four CartPoles at once",
        game=CARTPOLE_GAME,
        settings={**CARTPOLES, **ACTOR_CRITICS, "algorithm": "ppo"},
        seeds=5,
        measure=share_of_agents(475.0),
        expected=1.0,
        accepts=(0.9, 1.0),
        source="docs/algorithms.md: 20 of 20 agents; 475 counts as solved in Gymnasium",
        minutes=2,
    ),
    Result(
        name="cartpole-dqn",
        summary="DQN solves four CartPoles at once, but for one agent in ten",
        game=CARTPOLE_GAME,
        settings={**CARTPOLES, **VALUE_BASED, "algorithm": "dqn"},
        seeds=5,
        measure=share_of_agents(475.0),
        expected=0.9,
        accepts=(0.8, 1.0),
        source="docs/algorithms.md: 18 of 20 agents; 475 counts as solved in Gymnasium",
        minutes=6,
    ),
    Result(
        name="treasurehunt-forager",
        summary="IQN gets nearly as much as the scripted forager in treasurehunt",
        game="treasurehunt",
        settings={"rounds": 170, "workers": 0},
        seeds=3,
        measure=share_of_player("forager"),
        expected=0.96,
        accepts=(0.85, 1.15),
        source="docs/games/treasurehunt.md: 159.9 against 165.9",
        minutes=5,
        episodes=50,
    ),
    Result(
        name="foraging-dqn",
        summary="independent DQN learns level-based foraging with two agents",
        game=FORAGING_GAME,
        settings={**COMMON, **FORAGING, "algorithm": "dqn"},
        seeds=3,
        measure=mean_sum(),
        expected=0.96,
        accepts=(0.9, 1.0),
        source="docs/published.md: 0.96, 0.98, 0.95; the published target is 0.9",
        minutes=60,
        episodes=200,
    ),
    Result(
        name="spread-dqn",
        summary="independent DQN spreads out over three landmarks",
        game=SPREAD_GAME,
        settings={**COMMON, "game.max_cycles": 25, **SPREAD, "dqn.gap": 0.8}
        | {"algorithm": "dqn"},
        seeds=3,
        measure=mean_return(),
        expected=-10.0,
        accepts=(-11.3, -7.8),
        source="docs/published.md: −10.1, −9.8, −10.0; the target is −11.3",
        minutes=50,
        episodes=1_000,
    ),
)


def find_result(name: str) -> Result:
    """Return the result of this name.

    Raises:
        ConfigError: if there is none.
    """
    by_name = {result.name: result for result in CATALOGUE}
    if name not in by_name:
        raise ConfigError(f"unknown result '{name}': {nearest(name, by_name)}")
    return by_name[name]
