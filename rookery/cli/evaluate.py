"""The command `evaluate`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rookery.cli.options import (
    AsJson,
    ConfigFile,
    GameOrRun,
    NamedAlgorithms,
    NamedGame,
    Overrides,
    Players,
    Round,
    flag,
)
from rookery.errors import ConfigError
from rookery.printing import err, out, print_json, say

if TYPE_CHECKING:
    from rookery.api.lineups import Setup

Wide = Annotated[
    bool,
    flag("--wide", "Print complete tables, wider than the terminal if need be."),
]


def setups_of(
    game: str | None,
    overrides: list[str],
    players: str | None,
    config_file: Path | None,
    named_game: str | None,
    named_algorithms: list[str],
    round_number: int | None,
) -> Iterator[Setup]:
    """Return the line-ups that the arguments of `evaluate` ask for."""
    from rookery.api.lineups import game_setups, names_run, run_setups

    if not game or not names_run(game):
        if round_number is not None:
            raise ConfigError(
                "--round is for runs, and this is a game: leave --round out, or name a run."
            )
        return game_setups(game, overrides, players, config_file)
    if config_file is not None:
        raise ConfigError(
            "--config cannot be used with a run, which has its own: leave --config out, or "
            "name the game."
        )
    return run_setups(game, overrides, named_game, named_algorithms, players, round_number)


def evaluate(
    game: GameOrRun = None,
    overrides: Overrides = None,
    players: Players = None,
    config_file: ConfigFile = None,
    named_game: NamedGame = None,
    named_algorithms: NamedAlgorithms = None,
    round_number: Round = None,
    wide: Wide = False,
    as_json: AsJson = False,
) -> None:
    """Play without learning, and report the returns of trained and scripted players.

    In the tables, mean is the mean return over episodes and agents, std its
    standard deviation over episodes, and counts are means per episode and
    agent. A folder of seeds also gets the interquartile mean over seeds, with
    its 95 % interval.
    """
    from rookery.api.evaluate import evaluate_setups
    from rookery.cli.output import print_evaluation, progress

    setups = setups_of(
        game,
        overrides or [],
        players,
        config_file,
        named_game,
        named_algorithms or [],
        round_number,
    )
    evaluation = evaluate_setups(
        setups, lambda label, of: progress(err, label, of, as_json), say
    )
    if as_json:
        print_json(evaluation.to_json())
    else:
        print_evaluation(out, evaluation, wide)
