"""`rookery sweep … --search optuna`: search for the best settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rookery.cli.options import flag
from rookery.errors import ConfigError

if TYPE_CHECKING:
    from rookery.sweeps.search_plan import SearchQuestion

Engine = Annotated[
    str | None,
    typer.Option(
        "--search",
        metavar="optuna",
        help="Search for the best settings: optuna suggests each trial from the scores of "
        "those before. Ranges are 1..8 (whole numbers), 0.5..0.99, 1e-5..1e-2..log.",
    ),
]
NumberOfTrials = Annotated[
    int | None,
    typer.Option("--trials", help="With --search, how many combinations to try."),
]
Maximised = Annotated[
    str | None,
    typer.Option(
        "--metric",
        help="With --search, what is maximised, as a mean over seeds: trained (the return "
        "in the last evaluation), return, or a count of the game.",
    ),
]
NoPruning = Annotated[
    bool,
    flag("--no-pruning", "With --search, train also trials to the end that are behind."),
]
SearchSeed = Annotated[
    int | None,
    typer.Option("--search-seed", help="With --search, decides what is suggested."),
]


@dataclass(frozen=True)
class SearchOptions:
    """The options of a search, as they were given."""

    engine: str | None
    trials: int | None
    metric: str | None
    seed: int | None
    no_pruning: bool

    def check(self, on: str, plan_file: Path | None) -> None:
        """Check that the options go together; called before anything is written.

        Raises:
            ConfigError: naming one that does not.
        """
        given = {
            "--search": self.engine,
            "--trials": self.trials,
            "--metric": self.metric,
            "--search-seed": self.seed,
            "--no-pruning": self.no_pruning or None,
        }
        first = next((name for name, value in given.items() if value is not None), None)
        if first is None:
            return
        if plan_file is not None:
            raise ConfigError(
                f"{first} and --plan were given: put everything into the file, the search "
                "into its table [search]."
            )
        if self.engine is None:
            raise ConfigError(f"{first} needs --search optuna.")
        refuse_place(on)

    def asked(
        self, games: str, words: Sequence[str], seeds: Sequence[int]
    ) -> SearchQuestion:
        """Return the search that the words of a command line ask for."""
        from rookery.sweeps.search_words import parse_search

        options: dict[str, Any] = {"engine": self.engine, "metric": self.metric}
        options |= {"trials": self.trials, "seed": self.seed or 0}
        return parse_search(
            games, words, seeds, {**options, "pruning": not self.no_pruning}
        )


def refuse_place(on: str) -> None:
    """Refuse to search where processes share no folder.

    Raises:
        ConfigError: if they do not.
    """
    if on == "ray":
        raise ConfigError(
            "a search cannot be trained --on ray, because its processes share a study in "
            "the sweep's folder, and nodes share no folder: use --on local or --on slurm."
        )
