"""Probes: a user's function that measures the agents while they are trained.

A probe is a function of `(players, game)` that returns numbers by name:

    # mine.py
    def greed(players, game):
        match = game.play(players, episodes=8, record=True)
        table = match.table()
        return {"greed": (table["action_name"] == "zap").mean()}

Name it with `probe.code=./mine.py:greed`. It is called before the first round, so that
mistakes show at once, and then every `probe.every_rounds` rounds. What it returns is in
`Run.probes()` and in TensorBoard.

The players are copies of the agents as they are at that moment, and the game is a separate
one with its own random numbers. So a probe cannot affect training, whatever it does.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rookery.algorithms.base import Agent
from rookery.algorithms.custom.sandbox import seeded
from rookery.algorithms.torch_setup import standard_state
from rookery.config.messages import cut, shown, single_line
from rookery.config.resolve import resolve
from rookery.config.run import Config
from rookery.errors import ConfigError, ProbeError
from rookery.evaluation.play import (
    Match,
    Seat,
    Seats,
    assign_seats,
    play_match,
    play_settings,
)
from rookery.games.base import Game, GameWrapper, Phases
from rookery.games.registry import Entry
from rookery.plugins import describe_error, line_in, load_object
from rookery.specs import AgentSpec
from rookery.stop import LEAVING

Function = Callable[..., Mapping[str, float]]
MOST_BYTES = 8192
"""The largest result of a probe, as JSON."""


class ProbeGame:
    """The game that a probe is given: the run's, with separate random numbers.

    `play` plays whole episodes; `build` gives the game itself, to be played turn by turn.
    """

    def __init__(
        self,
        entry: Entry,
        config: Config,
        agents: Sequence[Agent],
        boundary: int,
        beat: Callable[[], None] = lambda: None,
    ) -> None:
        self._entry, self._config, self._beat = entry, config, beat
        self.round = max(1, boundary)
        """The last round that was played; a curriculum is as it was in that round."""
        self._agents = agents
        self.name = entry.name
        self.seed = config.seed
        """The seed of its random numbers, different at every boundary."""
        self.cut = 0
        """The number of episodes that were cut off."""

    @property
    def agents(self) -> tuple[AgentSpec, ...]:
        """What each agent observes and can do."""
        return tuple(agent.spec for agent in self._agents)

    def play(
        self, players: Seats, *, episodes: int = 16, record: bool = False, **settings: Any
    ) -> Match:
        """Play whole episodes and return the result.

        Args:
            players: the ones the probe was given, or others, as in `rookery.play`.
            episodes: how many to play.
            record: whether to record facts, actions and rewards.
            **settings: where they differ from the run's, as in `rookery.play`:
                `game={"spawn": 0.2}`.
        """
        config = self._config_with(settings)
        seats = assign_seats(self.agents, players)
        match = play_match(
            self._entry,
            config,
            seats,
            episodes=episodes,
            record=record,
            round_number=self.round,
            beat=self._beat,
        )
        self.cut += match.cut
        return match

    def build(self, worlds: int = 1, **settings: Any) -> Game:
        """Return the game itself, to be played turn by turn.

        Args:
            worlds: how many copies to play at once.
            **settings: where they differ from the run's: `game={"spawn": 0.2}`.
        """
        config = self._config_with(settings)
        built = self._entry.build_guarded(config.game.settings, worlds, self.seed)
        game = _GameWithHeartbeat(built, self._beat)
        game.begin_round(self.round)
        return game

    def _config_with(self, settings: Mapping[str, Any]) -> Config:
        old, tree = self._config, play_settings(self._entry, settings)
        tree["game"] = {**old.game.settings.model_dump(), **tree["game"]}
        changed = resolve(tree, self._entry.settings)
        turns = changed.evaluate.turns or old.evaluate.turns
        evaluate = old.evaluate.model_copy(update={"turns": turns})
        return old.model_copy(update={"game": changed.game, "evaluate": evaluate})


class _GameWithHeartbeat(GameWrapper):
    """A game that gives a sign of life every turn, and stops when the run is to stop."""

    def __init__(self, game: Game, beat: Callable[[], None]) -> None:
        super().__init__(game)
        self._beat = beat

    def begin_turn(self) -> Phases:
        """Begin a turn."""
        self._beat()
        return super().begin_turn()


class Probe:
    """A user's function, loaded from its name."""

    def __init__(self, name: str) -> None:
        """Load the function.

        Raises:
            ConfigError: if there is none, or it does not take `(players, game)`.
        """
        self.name = name
        loaded = load_object(name)
        if not callable(loaded) or isinstance(loaded, type) or not _takes_two(loaded):
            value = cut(single_line(repr(loaded)))
            raise ConfigError(
                f"probe.code is '{name}', which is {value}: name a function of (players, "
                "game) that returns numbers by name."
            )
        self._function: Function = loaded

    def call(
        self, players: Mapping[str, Seat], game: ProbeGame, boundary: int
    ) -> dict[str, float]:
        """Return the function's result.

        Raises:
            ProbeError: if it raises, or returns anything but numbers by name.
        """
        try:
            with seeded(game.seed), standard_state():
                result = self._function(dict(players), game)
        except LEAVING:
            raise
        except BaseException as error:
            file = inspect.getsourcefile(self._function)
            line = line_in(Path(file), error) if file else ""
            raise self._error(
                boundary, f"raised {cut(describe_error(error))}{line}"
            ) from error
        return self._numbers(result, boundary)

    def _numbers(self, result: Any, boundary: int) -> dict[str, float]:
        try:
            numbers = {str(name): float(value) for name, value in dict(result).items()}
        except (TypeError, ValueError) as error:
            returned = cut(single_line(repr(result)))
            raise self._error(
                boundary, f"returned {returned}, expected numbers by name"
            ) from error
        size = len(json.dumps(numbers))
        if size > MOST_BYTES:
            raise self._error(
                boundary,
                f"returned {len(numbers)} numbers of {size} bytes in total, expected at "
                f"most {MOST_BYTES} bytes",
            )
        return numbers

    def _error(self, boundary: int, problem: str) -> ProbeError:
        return ProbeError(f"the probe {self.name} {problem} (after round {boundary}).")


def probe_of(config: Config) -> Probe | None:
    """Return the probe of a run, if there is one."""
    return Probe(config.probe.code) if config.probe.code else None


def _takes_two(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(None, None)
    except (TypeError, ValueError):
        return False
    return True


def check_named(config: Config, named: Sequence[str], where: str) -> None:
    """Refuse a probe that a file names and the user does not.

    Raises:
        ConfigError: with the setting to add.
    """
    code = config.probe.code
    if code and code not in named:
        raise ConfigError(
            f"{where} names the probe {shown(code)}, which is code. If you trust it, name "
            f"it on the command line, too: probe.code={code}"
        )
