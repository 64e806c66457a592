"""Crossplay: what an agent gets in the company of agents that were trained elsewhere.

Who meets whom are *camps*: a run, several seeds of one, or a scripted player. A guest from
each camp plays among hosts of each, in every seat that it was trained for in turn, in the
same games. The unit is the seed: of camps with several seeds, each guest meets each host,
within its own camp those of other seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rookery.errors import ConfigError, nearest
from rookery.evaluation.play import Seat, play_match, player_name
from rookery.games.registry import Entry
from rookery.runs.folder import is_run
from rookery.runs.run import Run
from rookery.studies.crossplay_report import Crossplay, Pairing

Camp = str | Path | Run | Sequence[Run] | Seat


@dataclass
class Population:
    """One who plays: the agents of a run, or one player in all seats."""

    population: int
    name: str
    run: Run | None
    seats: Mapping[str, Seat]
    """By agent id, for hosts: who was trained, and who is scripted."""
    can_visit: Collection[str]
    """The seats that a guest of theirs can take: those that were trained for."""


def crossplay(
    populations: Sequence[Camp],
    episodes: int = 50,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Crossplay:
    """Let a guest of each camp play among hosts of each.

    Args:
        populations: runs or their folders, folders of seeds, lists of runs that differ in
            their seed, or players by name or as classes.
        episodes: how many each guest plays with each host, in all of its seats together.
        seed: of the games; all meetings are played in the same ones.
        progress: called with how many have met, of how many.
    """
    opened = [_runs_of(population) for population in populations]
    runs = [run for found in opened for run in found]
    if not runs:
        named = ", ".join(f"'{population}'" for population in populations) or "nothing"
        raise ConfigError(f"there is no run among {named}: name at least one.")
    _check_games(runs)
    parties = _parties(populations, opened, runs[0])
    meetings = []
    for focal in parties:
        for background in parties:
            meetings.append(
                _meet(
                    focal,
                    background,
                    background.run or focal.run or runs[0],
                    episodes,
                    seed,
                )
            )
            progress(len(meetings), len(parties) ** 2)
    names = [_name_of(population) for population in populations]
    return Crossplay(names, runs[0].entry.name, episodes, meetings)


def _runs_of(population: Camp) -> list[Run]:
    """Return the runs of a camp; none if it is a player."""
    if isinstance(population, Run):
        return [population]
    if isinstance(population, str | Path):
        path = Path(population)
        if not is_run(path):
            return [Run(path)] if isinstance(population, Path) else []
        return Run.seeds(path) or [Run(path)]
    if isinstance(population, Sequence):
        return [run for run in population if isinstance(run, Run)]
    return []


def _name_of(population: Camp) -> str:
    if isinstance(population, Run):
        return str(population.path)
    if isinstance(population, Sequence) and not isinstance(population, str):
        return str(population[0].path.parent)
    return (
        str(population) if isinstance(population, (str, Path)) else player_name(population)
    )


def _check_games(runs: Sequence[Run]) -> None:
    first = runs[0]
    for run in runs:
        if run.entry.name != first.entry.name:
            raise ConfigError(
                f"{first.path} was trained in '{first.entry.name}' and {run.path} in "
                f"'{run.entry.name}': crossplay needs one game."
            )


def _parties(
    populations: Sequence[Camp], opened: Sequence[Sequence[Run]], first: Run
) -> list[Population]:
    found = []
    for number, (population, runs) in enumerate(zip(populations, opened, strict=True)):
        for run in runs:
            trained = run.players()
            scripted = {
                m.id: m.player or "random" for m in run.agents if m.id not in trained
            }
            seats: dict[str, Seat] = {**trained, **scripted}
            found.append(Population(number, str(run.path), run, seats, set(trained)))
        if not runs:
            player: Any = population
            _check_player(player, first.entry)
            seats = {m.id: player for each in opened for run in each for m in run.agents}
            found.append(Population(number, player_name(player), None, seats, set(seats)))
    return found


def _check_player(player: Any, entry: Entry) -> None:
    if isinstance(player, str) and player not in entry.players:
        raise ConfigError(
            f"'{player}' is neither a run nor a player of '{entry.name}': "
            f"{nearest(player, entry.players)}"
        )


def _meet(
    focal: Population, background: Population, home: Run, episodes: int, seed: int
) -> Pairing:
    """Let a guest play among hosts, in each seat it can take."""
    ids = [agent.id for agent in home.agents]
    places = [i for i in ids if i in focal.can_visit]
    if not places:
        raise ConfigError(f"{focal.name} has no trained agent for a seat of {home.path}.")
    config = home.config.model_copy(update={"seed": seed})
    returns, seats, cut = [], [], 0
    for number, place in enumerate(places):
        share = episodes // len(places) + (number < episodes % len(places))
        if share:
            lineup = [
                (focal if i == place else background).seats.get(i, "random") for i in ids
            ]
            match = play_match(
                home.entry,
                config,
                lineup,
                episodes=share,
                round_number=home.rounds_with_weights[-1],
            )
            returns.append(match.returns)
            seats += [ids.index(place)] * len(match.episodes)
            cut += match.cut
    return Pairing(
        focal.population,
        background.population,
        focal.name,
        background.name,
        np.concatenate(returns),
        np.array(seats),
        cut,
    )
