"""Line-ups: a game with the players that are to play it, from settings or from a run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rookery.config.parse import nested
from rookery.config.run import Config
from rookery.config.toml import write_config
from rookery.errors import ConfigError, nearest
from rookery.evaluation.play import (
    AS_TRAINED,
    TRAINED,
    Match,
    Seat,
    Seats,
    agents_of,
    assign_seats,
    play_match,
    player_name,
)
from rookery.evaluation.trained import TrainedAgent
from rookery.games.registry import Entry, entries_by_name
from rookery.rng import Purpose, keyed_seed
from rookery.runs.configure import configure, seat
from rookery.runs.folder import CONFIG, is_run, new_run, no_run, runs_in, seeds_of
from rookery.runs.run import Run

CHANGEABLE = ("seed", "worlds", "evaluate.episodes", "evaluate.turns")
"""Settings of a run that can be changed when its agents play."""
TRAINED_SEAT = re.compile(rf"({TRAINED}|{AS_TRAINED})(?:@(\d+))?")
"""A trained agent in a line-up: as it is now, or as it was after a round."""


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
    round: int | None = None
    """The round that the run's agents are from; None for the last one."""

    @property
    def round_number(self) -> int | None:
        """The round that the run's agents are from."""
        if self.run is None:
            return None
        return self.run.rounds_with_weights[-1] if self.round is None else self.round

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
    game: str | type | None,
    overrides: Sequence[str],
    players: Seats | None,
    config_file: Path | None,
    settings: Mapping[str, Any] | None = None,
) -> Iterator[Setup]:
    """Yield the line-ups of a game: the players named, or each scripted player."""
    is_unknown = isinstance(game, str) and game and game not in entries_by_name()
    if is_unknown and runs_in(Path(str(game))):
        raise no_run(Path(str(game)))
    entry, config = configure(game, overrides, config_file, settings)
    if players is not None and not isinstance(players, str):
        seats = assign_seats(agents_of(entry, config), players)
        yield Setup(entry, config, {label_of(seats): seats})
        return
    config, named = seat(entry, config, players)
    if named:
        yield Setup(entry, config, {label_of(named): named})
    else:
        agents = agents_of(entry, config)
        yield Setup(
            entry, config, {name: assign_seats(agents, name) for name in entry.players}
        )


def label_of(seats: Sequence[Seat]) -> str:
    """Return the label of a line-up: the name of its only player, or one per agent."""
    names = [player_name(player) for player in seats]
    return names[0] if len(set(names)) == 1 else ",".join(names)


def split_round(name: str | Path) -> tuple[Path, int | None]:
    """Return the folder of a run written as RUN or RUN@ROUND, and the round."""
    folder, at, number = str(name).rpartition("@")
    if at and number.isdecimal() and is_run(Path(folder)) and not is_run(Path(name)):
        return Path(folder), int(number)
    return Path(name), None


def names_run(name: str | Path) -> bool:
    """Whether a name is that of a run, a folder of seeds, or RUN@ROUND."""
    return is_run(split_round(name)[0])


def run_setups(
    path: str | Path | Run,
    overrides: Sequence[str],
    game: str | type | None,
    algorithms: Sequence[str | type],
    players: Seats | None = None,
    round: int | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Iterator[Setup]:
    """Yield the line-ups of a run, or of every run in a folder of seeds.

    Args:
        path: a run, its folder, a folder of seeds, or RUN@ROUND.
        overrides: settings to change, KEY=VALUE each.
        game: the game's name as in training, or its class, if it is not built in.
        algorithms: the same for algorithms.
        players: who plays: one player for all agents, one per agent (also as 'a,b,c'), or a
            mapping from agent id to player, in which agents that are left out play as in
            the run. A player is 'trained', 'as_trained', either of them of a round
            ('trained@50'), a scripted player, or what makes a player. By default all
            agents as trained, with and without exploration, and each scripted player.
        round: the round whose weights are used; by default the last.
        settings: settings to change, from Python.
    """
    number = round
    if isinstance(path, Run):
        runs, are_seeds = [path], False
    else:
        folder, written = split_round(path)
        if None not in (round, written) and round != written:
            raise ConfigError(
                f"{path} and round {round} name two rounds: leave one of them out."
            )
        number = written if round is None else round
        seeds = seeds_of(folder)
        runs = [Run(seed, game, algorithms) for seed in seeds or [folder]]
        are_seeds = bool(seeds)
    for run in runs:
        config = changed_config(run, overrides, settings)
        lineups = _lineups(run, players, number)
        yield Setup(run.entry, config, lineups, run, are_seeds, number)


def _lineups(
    run: Run, players: Seats | None, number: int | None
) -> dict[str, Sequence[Seat]]:
    """Return the line-ups of a run by label."""
    if players is not None:
        seats = run_seats(run, players, number)
        return {label_of(seats): seats}
    specs = [agent.spec for agent in run.agents]
    lineups: dict[str, Sequence[Seat]] = {
        TRAINED: seats_of(run, True, number),
        AS_TRAINED: seats_of(run, False, number),
    }
    return lineups | {name: assign_seats(specs, name) for name in run.entry.players}


def seats_of(run: Run, greedy: bool = True, number: int | None = None) -> list[Seat]:
    """Return the trained agents and scripted players of a run, one per seat."""
    return run_seats(run, TRAINED if greedy else AS_TRAINED, number)


def run_seats(run: Run, players: Seats, number: int | None = None) -> list[Seat]:
    """Return one seat per agent of a run; see `run_setups` for `players`."""
    if isinstance(players, str) and "," in players:
        players = players.split(",")
    ids = [agent.id for agent in run.agents]
    if isinstance(players, Mapping):
        given = {str(key) for key in players}
        players = {**dict.fromkeys(set(ids) - given, TRAINED), **players}
        chosen = assign_seats([agent.spec for agent in run.agents], players)
        is_named = [i in given for i in ids]
    else:
        chosen = assign_seats([agent.spec for agent in run.agents], players)
        is_named = [not isinstance(players, str)] * len(ids)
    if len(chosen) != len(ids):
        raise ConfigError(
            f"got {len(chosen)} players for the {len(ids)} agents of {run.path}: name one "
            "for all, or one per agent."
        )
    opened: dict[int | None, Mapping[str, TrainedAgent]] = {}
    return [
        _seat_of(run, agent, player, number, named, opened)
        for agent, player, named in zip(ids, chosen, is_named, strict=True)
    ]


def _seat_of(
    run: Run,
    agent: str,
    player: Seat,
    number: int | None,
    is_named: bool,
    opened: dict[int | None, Mapping[str, TrainedAgent]],
) -> Seat:
    """Return the player of an agent.

    Args:
        run: the run.
        agent: the agent's id.
        player: who is to play it.
        number: the round of trained agents for which no round is written.
        is_named: whether this agent's player was named, rather than one for all agents.
        opened: the trained agents by round, to which new ones are added.
    """
    if not isinstance(player, str):
        return player
    trained = TRAINED_SEAT.fullmatch(player)
    if trained is None:
        if player not in run.entry.players:
            known = [TRAINED, AS_TRAINED, *run.entry.players]
            raise ConfigError(
                f"unknown player '{player}' for {run.path}: {nearest(player, known)}"
            )
        return player
    number = int(trained[2]) if trained[2] else number
    if number not in opened:
        opened[number] = run.players(number)
    if agent not in opened[number]:
        scripted = next(a.player for a in run.agents if a.id == agent) or "random"
        if is_named:
            raise ConfigError(
                f"agent '{agent}' of {run.path} was not trained: '{scripted}' played it. "
                "Name a scripted player for it."
            )
        return scripted
    seated = copy(opened[number][agent])
    # A round that was asked for separately is part of the name, as in 'trained@50'.
    is_asked = number is not None and not trained[2]
    seated.__name__ = f"{player}@{number}" if is_asked else player
    greedy = trained[1] == TRAINED
    seated.exploration = 0.0 if greedy else run.exploration(agent, number)
    seated.noise = not greedy
    return seated


def changed_config(
    run: Run, overrides: Sequence[str], settings: Mapping[str, Any] | None = None
) -> Config:
    """Return a run's configuration with changed settings, and with a separate seed."""
    for override in [*overrides, *_as_overrides(nested(settings or {}))]:
        if not override.startswith(tuple(f"{name}=" for name in CHANGEABLE)):
            raise ConfigError(
                f"'{override}' cannot be changed after training; seed, worlds, "
                "evaluate.episodes and evaluate.turns can."
            )
    _, config = configure(run.entry.name, overrides, run.path / CONFIG, settings)
    # So that the agents do not play the games that they were trained in.
    seed = keyed_seed(config.seed, Purpose.AFTER_TRAINING)
    return config.model_copy(update={"seed": seed})


def _as_overrides(tree: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield settings from Python as they are written on the command line."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _as_overrides(value, f"{prefix}{key}.")
        elif value is not None:
            yield f"{prefix}{key}={value}"


def write_new_run(folder: Path | None, setup: Setup) -> Path:
    """Create a run folder with the configuration of a line-up, and return it."""
    path = new_run(folder, setup.entry.name)
    write_config(setup.config, path / CONFIG)
    return path
