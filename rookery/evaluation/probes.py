"""Probes: a user's function that is asked about the agents while they are trained.

It is called at boundaries with copies of the agents as they are then and a game of its
own. Whatever it does there, training goes on as if it had not been called: nothing it is
given is used otherwise, and the random numbers it draws are its own.
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
from rookery.evaluation.play import Lineup, Match, Seat, lineup, play_match
from rookery.games.base import Game, GameWrapper, Phases
from rookery.games.registry import Entry
from rookery.plugins import describe_error, line_in, load_object
from rookery.specs import AgentSpec
from rookery.stop import LEAVING

Function = Callable[..., Mapping[str, float]]
PROBE_SEED = 2**62 + 2**61
"""Added to the seed, so that probes play other games than training and evaluations."""
MOST_BYTES = 8192
"""How long what a probe returns may be, as JSON."""


class ProbeGame:
    """A game of the probe's own: the run's, with numbers of its own."""

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
        """The round that was played last; a curriculum is where it was then."""
        self._agents = agents
        self.name = entry.name
        self.seed = config.seed
        """Where its random numbers come from; another one at every boundary."""
        self.cut = 0
        """Episodes that were cut off."""

    @property
    def agents(self) -> tuple[AgentSpec, ...]:
        """Who plays, what they see and can do."""
        return tuple(agent.spec for agent in self._agents)

    def play(
        self, players: Lineup, *, episodes: int = 16, record: bool = False, **settings: Any
    ) -> Match:
        """Play whole episodes and return the match.

        Args:
            players: those the probe was given, or others: as in `rookery.play`.
            episodes: how many.
            record: whether to keep facts, actions and rewards.
            **settings: of the game, where they are to differ from the run's.
        """
        config = self._changed(settings)
        seats = lineup(self.agents, players)
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
        """Return the game itself, to be played turn by turn."""
        chosen = self._changed(settings).game.settings
        built = self._entry.build_guarded(chosen, worlds, self.seed)
        game = _Beating(built, self._beat)
        game.begin_round(self.round)
        return game

    def _changed(self, settings: Mapping[str, Any]) -> Config:
        old = self._config
        game = {**old.game.settings.model_dump(), **settings, "name": self.name}
        chosen = resolve({"game": game}, self._entry.settings).game
        return old.model_copy(update={"game": chosen})


class _Beating(GameWrapper):
    """A game that gives a sign of life every turn, and notices when to stop."""

    def __init__(self, game: Game, beat: Callable[[], None]) -> None:
        super().__init__(game)
        self._beat = beat

    def begin_turn(self) -> Phases:
        """Begin a turn."""
        self._beat()
        return super().begin_turn()


class Probe:
    """A user's function, called with care."""

    def __init__(self, name: str) -> None:
        self.name = name
        found = load_object(name)
        said = cut(single_line(repr(found)))
        if not callable(found) or isinstance(found, type) or not _takes_two(found):
            raise ConfigError(
                f"probe.code is '{name}', {said}: name a function of "
                "(players, game) that returns numbers by name."
            )
        self._function: Function = found

    def ask(
        self, players: Mapping[str, Seat], game: ProbeGame, boundary: int
    ) -> dict[str, float]:
        """Return what the function finds.

        Raises:
            ProbeError: if it raises, or returns anything but numbers by name.
        """
        try:
            with seeded(game.seed), standard_state():
                found = self._function(dict(players), game)
        except LEAVING:
            raise
        except BaseException as error:
            file = inspect.getsourcefile(self._function)
            line = line_in(Path(file), error) if file else ""
            raise self._error(
                boundary, f"raised {cut(describe_error(error))}{line}"
            ) from error
        return self._numbers(found, boundary)

    def _numbers(self, found: Any, boundary: int) -> dict[str, float]:
        try:
            numbers = {str(name): float(value) for name, value in dict(found).items()}
        except (TypeError, ValueError) as error:
            said = f"returned {cut(single_line(repr(found)))}, expected numbers by name"
            raise self._error(boundary, said) from error
        size = len(json.dumps(numbers))
        if size > MOST_BYTES:
            said = f"returned {len(numbers)} numbers, which take {size} bytes"
            raise self._error(boundary, f"{said}: {MOST_BYTES} are the most")
        return numbers

    def _error(self, boundary: int, what: str) -> ProbeError:
        return ProbeError(f"the probe {self.name} {what} (after round {boundary}).")


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
    """Refuse a probe that only a file names.

    Raises:
        ConfigError: with the words that name it again.
    """
    code = config.probe.code
    if code and code not in named:
        raise ConfigError(
            f"{where} names the probe {shown(code)}, which is code: if you trust it, name "
            f"it on the command line, too: probe.code={code}"
        )
