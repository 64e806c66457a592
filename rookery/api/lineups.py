"""Line-ups: a game with the players that are to play it, from settings or from a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rookery.config.run import Config
from rookery.config.toml import write_config
from rookery.errors import ConfigError
from rookery.evaluation.play import Match, Seat, agents_of, assign_seats, play_match
from rookery.games.registry import Entry
from rookery.rng import Purpose, keyed_seed
from rookery.runs.configure import configure, seat
from rookery.runs.folder import CONFIG, new_run, seeds_of
from rookery.runs.run import Run

CHANGEABLE = ("seed", "worlds", "evaluate.episodes", "evaluate.turns")
"""Settings of a run that can be changed when its agents play."""


@dataclass
class Setup:
    """A game with the line-ups that are to play it, from the command line or from a run."""

    entry: Entry
    config: Config
    lineups: Mapping[str, Sequence[Seat]]
    """The seats by label; the first one is the one that `replay` plays."""
    run: Run | None = None
    is_seed: bool = False
    """Whether the run is in a folder of seeds."""

    @property
    def round_number(self) -> int | None:
        """The round that the run's agents are from."""
        return self.run.rounds_with_weights[-1] if self.run else None

    def play(self, label: str, episodes: int, **options: Any) -> Match:
        """Play a line-up."""
        return play_match(
            self.entry,
            self.config,
            self.lineups[label],
            episodes=episodes,
            round_number=self.round_number,
            **options,
        )


def game_setups(
    game: str | None,
    overrides: Sequence[str],
    players: str | None,
    config_file: Path | None,
) -> Iterator[Setup]:
    """Yield the line-ups of a game: the players named, or each scripted player."""
    entry, config = configure(game, overrides, config_file)
    config, seats = seat(entry, config, players)
    if seats:
        yield Setup(entry, config, {_label([str(name) for name in seats]): seats})
    else:
        agents = agents_of(entry, config)
        yield Setup(
            entry, config, {name: assign_seats(agents, name) for name in entry.players}
        )


def _label(players: Sequence[str]) -> str:
    return players[0] if len(set(players)) == 1 else ",".join(players)


def run_setups(
    path: Path, overrides: Sequence[str], game: str | None, algorithms: Sequence[str]
) -> Iterator[Setup]:
    """Yield the line-ups of a run, or of every run in a folder of seeds."""
    seeds = seeds_of(path)
    for run in [Run(folder, game, algorithms) for folder in seeds or [path]]:
        config = changed_config(run, overrides)
        lineups = {"trained": seats_of(run), "as_trained": seats_of(run, greedy=False)}
        specs = [agent.spec for agent in run.agents]
        lineups |= {name: assign_seats(specs, name) for name in run.entry.players}
        yield Setup(run.entry, config, lineups, run, bool(seeds))


def seats_of(run: Run, greedy: bool = True) -> list[Seat]:
    """Return the trained agents and scripted players of a run, one per seat."""
    trained = run.players()
    for agent, player in trained.items():
        player.__name__ = "trained"
        player.exploration = 0.0 if greedy else run.exploration(agent)
        player.noise = not greedy
    return [
        trained[agent.id] if agent.algorithm else agent.player or "random"
        for agent in run.agents
    ]


def changed_config(run: Run, overrides: Sequence[str]) -> Config:
    """Return a run's configuration with changed settings, and with a separate seed."""
    for override in overrides:
        if not override.startswith(tuple(f"{name}=" for name in CHANGEABLE)):
            raise ConfigError(
                f"'{override}' cannot be changed after training; seed, worlds, "
                "evaluate.episodes and evaluate.turns can."
            )
    _, config = configure(run.entry.name, overrides, run.path / CONFIG)
    # So that the agents do not play the games that they were trained in.
    seed = keyed_seed(config.seed, Purpose.AFTER_TRAINING)
    return config.model_copy(update={"seed": seed})


def write_new_run(folder: Path | None, setup: Setup) -> Path:
    """Create a run folder with the configuration of a line-up, and return it."""
    path = new_run(folder, setup.entry.name)
    write_config(setup.config, path / CONFIG)
    return path
