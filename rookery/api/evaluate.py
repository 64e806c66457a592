"""`rookery.evaluate`: play without learning, and compare trained and scripted players."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rookery.api.lineups import Setup, game_setups, names_run, run_setups
from rookery.config.messages import shown
from rookery.errors import ConfigError
from rookery.evaluation.play import Match, Seats, cut_line
from rookery.evaluation.tables import pandas_or_advice
from rookery.runs.run import Run
from rookery.specs import AgentSpec
from rookery.studies.statistics import bootstrap, interquartile_mean

if TYPE_CHECKING:
    from pandas import DataFrame

Advance = Callable[[int], None]
"""Called with the number of finished episodes of a line-up."""


def evaluate(
    game_or_run: str | type | Path | Run | Sequence[Run],
    /,
    players: Seats | None = None,
    *,
    episodes: int | None = None,
    round: int | None = None,
    seed: int | None = None,
    game: str | type | Mapping[str, Any] | None = None,
    algorithm: str | type | Sequence[str | type] | None = None,
    **settings: Any,
) -> Evaluation:
    """Play without learning, and return the returns and counts of every line-up.

    Without `players`, the agents of a run play as trained, greedily (`trained`) and with
    their exploration (`as_trained`), and each scripted player of the game plays in all
    seats, in the same games. For a game, only the scripted players play.

    Args:
        game_or_run: a game or its class, a run or its folder, RUN@ROUND, a folder of
            seeds, or a list of runs that differ in their seed.
        players: who plays: one player for all agents, a list, or a mapping from agent id
            to player. In a run, 'trained', 'as_trained' and 'trained@50' are players, too,
            and agents that a mapping leaves out play as trained.
        episodes: of each line-up; by default `evaluate.episodes`.
        round: the round whose weights the agents of a run have; by default the last.
        seed: of all random numbers; by default that of the run, or 0.
        game: for a run, the game's name or class if it is not built in; for a game, its
            settings: `{"turns": 20}`.
        algorithm: for a run, its algorithms that are not built in.
        **settings: as in `rookery.train`: `worlds=64`, `evaluate={"turns": 1000}`.
    """
    changes = {"seed": seed, **settings}
    if episodes is not None:
        changes["evaluate.episodes"] = episodes
    name = None if isinstance(game, Mapping) else game
    if isinstance(game, Mapping):
        changes["game"] = game
    if isinstance(game_or_run, type) or (
        isinstance(game_or_run, str) and not names_run(game_or_run)
    ):
        label = game_or_run if isinstance(game_or_run, str) else game_or_run.__name__
        _refuse(round, "round", "runs", label)
        _refuse(name, "game", "runs", label)
        setups = game_setups(game_or_run, (), players, None, changes)
    else:
        runs: Sequence[str | Path | Run]
        runs = [game_or_run] if isinstance(game_or_run, str | Path | Run) else game_or_run
        algorithms = [algorithm] if isinstance(algorithm, str | type) else algorithm or ()
        setups = _each_run(runs, name, algorithms, players, round, changes)
    return evaluate_setups(setups)


def _refuse(value: Any, option: str, kind: str, name: str) -> None:
    if value is not None:
        raise ConfigError(
            f"{option}={shown(value)} is for {kind}, and '{name}' is a game: leave it out."
        )


def _each_run(
    runs: Sequence[str | Path | Run],
    game: str | type | None,
    algorithms: Sequence[str | type],
    players: Seats | None,
    number: int | None,
    changes: Mapping[str, Any],
) -> Iterator[Setup]:
    for run in runs:
        for setup in run_setups(run, (), game, algorithms, players, number, changes):
            setup.is_seed |= len(runs) > 1
            yield setup


def evaluate_setups(
    setups: Iterable[Setup],
    progress: Callable[[str, int], AbstractContextManager[Advance]] | None = None,
    say: Callable[[str], None] | None = None,
) -> Evaluation:
    """Play all line-ups of some setups.

    Args:
        setups: one, or one per seed.
        progress: called with a label and the number of episodes; returns the context in
            which they are played, which gives what is called with those that are finished.
        say: called with each warning; by default they are Python warnings.
    """
    evaluation = Evaluation("", None, None, {})
    for setup in setups:
        episodes = setup.config.evaluate.episodes
        matches: dict[str, Match] = {}
        for label in setup.lineups:
            nothing: AbstractContextManager[Advance] = nullcontext(lambda finished: None)
            with progress(label, episodes) if progress else nothing as advance:
                matches[label] = setup.play(label, episodes, progress=advance)
            if cut := matches[label].cut:
                line = cut_line(cut, setup.config)
                if say is not None:
                    say(f"warning: {line}")
                else:
                    warnings.warn(line, stacklevel=3)
        evaluation.game, evaluation.round = setup.entry.name, setup.round_number
        name = ""
        if setup.run is not None:
            path = setup.run.path
            evaluation.run = str(path.parent if setup.is_seed else path)
            name = path.name if setup.is_seed else ""
            name = str(path) if name in evaluation.results else name
        evaluation.results[name] = matches
    return evaluation


class Estimate(NamedTuple):
    """The interquartile mean over seeds, and its 95 % bootstrap interval."""

    mean: float
    low: float | None
    """None with one seed, which says nothing about others."""
    high: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate:
        """Return the estimate from one value per seed."""
        mean = float(interquartile_mean(values))
        return cls(mean, *(bootstrap(values) if len(values) > 1 else (None, None)))

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.mean:.2f}"
        return f"{self.mean:.2f} [{self.low:.2f}, {self.high:.2f}]"


@dataclass
class Aggregate:
    """A line-up over several seeds; the unit is the seed."""

    seeds: int
    mean: Estimate
    """Of the mean return over episodes and agents."""
    agents: dict[str, Estimate]
    """Of each agent's mean return."""
    counts: dict[str, Estimate]
    """Of the game's counts per episode and agent."""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "mean": self.mean._asdict(),
            "agents": {agent: x._asdict() for agent, x in self.agents.items()},
            "counts": {name: x._asdict() for name, x in self.counts.items()},
        }


@dataclass(repr=False)
class Evaluation:
    """The matches of an evaluation: one per line-up, for each seed if there are several.

    Print it to see the tables of `rookery evaluate`.
    """

    game: str
    run: str | None
    """The folder of the run or of the seeds; None for a game."""
    round: int | None
    """The round that the weights are from."""
    results: dict[str, dict[str, Match]]
    """Matches by seed and line-up; without seeds, the only key is ''."""

    @property
    def has_seeds(self) -> bool:
        """Whether several seeds were evaluated."""
        return "" not in self.results

    @property
    def matches(self) -> dict[str, Match]:
        """The matches by line-up, of a game or a single run."""
        if self.has_seeds:
            raise ConfigError(
                f"{self.run} has {len(self.results)} seeds, each with its own matches: use "
                "evaluation.results[seed], or evaluation.aggregate() for all of them."
            )
        return self.results[""]

    @property
    def agents(self) -> tuple[AgentSpec, ...]:
        """The agents of the game."""
        return next(iter(next(iter(self.results.values())).values())).agents

    def __repr__(self) -> str:
        lineups = list(next(iter(self.results.values())))
        what = f"{self.run}@{self.round}" if self.run else self.game
        seeds = f", {len(self.results)} seeds" if self.has_seeds else ""
        return f"<Evaluation of {what}: {', '.join(lineups)}{seeds}>"

    def __str__(self) -> str:
        from rookery.api.evaluation_text import evaluation_text

        return evaluation_text(self)

    def aggregate(self) -> dict[str, Aggregate]:
        """Return every line-up over all seeds, by its label; the unit is the seed."""
        aggregates = {}
        for label in next(iter(self.results.values())):
            summaries = [matches[label].summary() for matches in self.results.values()]
            counts = summaries[0].get("counts", {})
            aggregates[label] = Aggregate(
                len(summaries),
                Estimate.of([summary["mean"] for summary in summaries]),
                {
                    agent: Estimate.of([summary["agents"][agent] for summary in summaries])
                    for agent in summaries[0]["agents"]
                },
                {
                    name: Estimate.of([x["counts"][name]["mean"] for x in summaries])
                    for name in counts
                },
            )
        return aggregates

    def table(self) -> DataFrame:
        """Return one row per line-up and agent, for each seed (needs pandas).

        `mean` is the agent's mean return, `std` its standard deviation over episodes; the
        game's counts are means per episode.
        """
        rows = []
        for seed, players, match in self._all():
            deviations = match.returns.std(axis=0, ddof=1 if len(match.episodes) > 1 else 0)
            for i, spec in enumerate(match.agents):
                rows.append(
                    {
                        **seed,
                        "players": players,
                        "agent": spec.id,
                        "role": spec.role,
                        "player": match.players[i],
                        "episodes": len(match.episodes),
                        "mean": float(match.returns[:, i].mean()),
                        "std": float(deviations[i]),
                        **{name: float(x[:, i].mean()) for name, x in match.counts.items()},
                    }
                )
        return pandas_or_advice().DataFrame(rows)

    def episodes(self) -> DataFrame:
        """Return every episode, one row per agent, for each line-up and seed."""
        rows = []
        for seed, players, match in self._all():
            for episode in match.episodes:
                for i, spec in enumerate(match.agents):
                    rows.append(
                        {
                            **seed,
                            "players": players,
                            "world": episode.world,
                            "episode": episode.number,
                            "turns": episode.turns,
                            "agent": spec.id,
                            "return": float(episode.returns[i]),
                            **{k: float(x[i]) for k, x in episode.counts.items()},
                        }
                    )
        return pandas_or_advice().DataFrame(rows)

    def _all(self) -> Iterator[tuple[dict[str, str], str, Match]]:
        for name, matches in self.results.items():
            for players, match in matches.items():
                yield {"seed": name} if self.has_seeds else {}, players, match

    def to_json(self) -> dict[str, Any]:
        """Return everything but the single episodes as plain data."""
        source: dict[str, Any] = {"game": self.game}
        if self.run is not None:
            source |= {"run": self.run, "round": self.round}
        summaries = {name: _summary(matches) for name, matches in self.results.items()}
        if not self.has_seeds:
            return {**source, **summaries[""]}
        return {
            **source,
            "seeds": summaries,
            "aggregate": {
                "unit": "seed",
                "statistic": "interquartile mean",
                "interval": 0.95,
                "players": {label: x.to_json() for label, x in self.aggregate().items()},
            },
        }


def _summary(matches: Mapping[str, Match]) -> dict[str, Any]:
    return {
        "episodes": min(len(match.episodes) for match in matches.values()),
        "players": {label: match.summary() for label, match in matches.items()},
    }
