"""The library: train a run, and let agents of several runs play each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rookery.configuring import configure
from rookery.errors import ConfigError
from rookery.folders import new_run
from rookery.playing import Seat, play_match
from rookery.running import Session
from rookery.runs import Run, resumed_config
from rookery.specs import Array
from rookery.training import Round


def train(
    game: str,
    /,
    *,
    run: str | Path | None = None,
    show: Callable[[Round], None] = lambda one: None,
    **settings: Any,
) -> Run:
    """Train the agents of a game and return the run.

    Args:
        game: a name from `rookery games`, or `./mine.py:Zap`.
        run: its folder; by default the next free one in runs/.
        show: called with every round.
        **settings: as on the command line: `rounds=300`, `agents={1: {…}}`,
            `game={"agents": 4}`, or dotted in a mapping: `**{"replay.capacity": 50_000}`.
    """
    entry, config = configure(game, settings=settings)
    path = new_run(Path(run) if run is not None else None, entry.name)
    session = Session(entry, config, path)
    session.run(show)
    algorithms = [member.plan.settings.algorithm for member in session.training.members]
    return Run(path, game, algorithms)


def resume(
    run: str | Path,
    game: str | None = None,
    algorithm: str | Sequence[str] | None = None,
    *,
    show: Callable[[Round], None] = lambda one: None,
) -> Run:
    """Go on with a run from where it ended: stopped, failed or killed.

    Args:
        run: its folder.
        game: the same word as in training, if it is a file of your own.
        algorithm: the same for algorithms of your own.
        show: called with every round.
    """
    opened = Run(run, game, algorithm)
    _ = opened.members  # all mistakes are told before the start
    Session(opened.entry, resumed_config(opened), opened.path, resume=True).run(show)
    return opened


@dataclass
class Crossplay:
    """What agents of some runs get in the company of others."""

    runs: list[str]
    means: Array
    """(runs, runs): the mean return of the row's agent among agents of the column."""
    spreads: Array
    """(runs, runs): the standard deviation over episodes."""
    episodes: int

    def __str__(self) -> str:
        width = max(len(name) for name in self.runs)
        lines = [" " * width + "".join(f"{i:>12}" for i in range(len(self.runs)))]
        for name, means, spreads in zip(self.runs, self.means, self.spreads, strict=True):
            cells = "".join(
                f"{m:7.1f}±{s:<4.1f}" for m, s in zip(means, spreads, strict=True)
            )
            lines.append(f"{name:>{width}}{cells}")
        return "\n".join(lines)


def crossplay(
    runs: Sequence[str | Path | Run], episodes: int = 50, seed: int = 0
) -> Crossplay:
    """Let an agent of each run play among agents of each run, in every seat in turn."""
    opened = [run if isinstance(run, Run) else Run(run) for run in runs]
    if not opened:
        raise ConfigError("crossplay of no runs: name at least one.")
    shape = (len(opened), len(opened))
    means, spreads = np.zeros(shape), np.zeros(shape)
    for i, guest in enumerate(opened):
        for j, host in enumerate(opened):
            returns = _visit(guest, host, episodes, seed)
            means[i, j] = returns.mean()
            spreads[i, j] = returns.std(ddof=1) if len(returns) > 1 else 0.0
    return Crossplay([str(run.path) for run in opened], means, spreads, episodes)


def _visit(guest: Run, host: Run, episodes: int, seed: int) -> Array:
    """Return what a guest's agents get, each in its own seat among the host's."""
    if guest.entry.name != host.entry.name:
        raise ConfigError(
            f"{guest.path} was trained in '{guest.entry.name}' and {host.path} in "
            f"'{host.entry.name}': crossplay needs one game."
        )
    home, away = host.players(), guest.players()
    seats = [member.id for member in host.members if member.id in away]
    config = host.config.model_copy(update={"seed": seed})
    found: list[float] = []
    for place, seat in enumerate(seats):
        share = episodes // len(seats) + (place < episodes % len(seats))
        if share:
            lineup = _lineup(host, home, {seat: away[seat]})
            match = play_match(host.entry, config, lineup, episodes=share)
            number = [spec.id for spec in match.agents].index(seat)
            found += match.returns[:, number].tolist()
    return np.array(found)


def _lineup(host: Run, home: Mapping[str, Seat], guests: Mapping[str, Seat]) -> list[Seat]:
    seats: list[Seat] = []
    for member in host.members:
        chosen = guests.get(member.id) or home.get(member.id)
        seats.append(chosen or member.player or "random")
    return seats
