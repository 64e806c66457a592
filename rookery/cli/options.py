"""Arguments and options that several commands share."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from rookery.cli.complete import (
    complete_game,
    complete_game_or_run,
    complete_run,
    complete_setting,
)


def flag(name: str, help: str, **options: Any) -> Any:
    """Return an option without a value; the help shows no type for it."""
    return typer.Option(name, help=help, metavar="", **options)


def _print_version(requested: bool) -> None:
    if requested:
        print(f"rookery {version('rookery')}")
        raise typer.Exit


Version = Annotated[
    bool,
    flag(
        "--version", "Print the version and exit.", callback=_print_version, is_eager=True
    ),
]
Debug = Annotated[bool, flag("--debug", "Show the traceback of an error, not one line.")]
Game = Annotated[
    str | None,
    typer.Argument(
        metavar="GAME",
        help="A name from `rookery games`, ./file.py:Class, pettingzoo:… or gymnasium:…",
        autocompletion=complete_game,
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SETTING=VALUE",
        help="Settings, such as game.agents=4 seed=3; `rookery settings` lists them all, "
        "and `rookery settings GAME` those of a game.",
        autocompletion=complete_setting,
    ),
]
Changes = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SETTING=VALUE",
        help="Settings to change, such as rounds=400 evaluate.every_rounds=10.",
    ),
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="A TOML file of settings.")
]
Players = Annotated[
    str | None,
    typer.Option(
        help="One player for all agents, or one per agent: a,b,c. In a run also trained, "
        "as_trained (with exploration) and trained@ROUND."
    ),
]
Round = Annotated[
    int | None,
    typer.Option(
        "--round",
        min=0,
        help="The round whose weights a run's agents have; also RUN@ROUND.",
    ),
]
AsJson = Annotated[bool, flag("--json", "Print one JSON object.")]
GameOrRun = Annotated[
    str | None,
    typer.Argument(
        metavar="GAME|RUN",
        help="A game, the folder of a run or of seeds, or RUN@ROUND.",
        autocompletion=complete_game_or_run,
    ),
]
RunFolder = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="The folder of a run.", autocompletion=complete_run),
]
NamedGame = Annotated[
    str | None,
    typer.Option("--game", help="The game of the run, if it is not built in."),
]
NamedAlgorithms = Annotated[
    list[str] | None,
    typer.Option("--algorithm", help="Your own algorithm or network of the run."),
]
NewFolder = Annotated[
    Path | None, typer.Option("--run", help="The folder to create for the run.")
]
Until = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Save and leave by then: 18:30, 2026-01-31T18:30, 90m or 1h30m. In a Slurm "
        "job, by default its end. The exit code is then 75.",
    ),
]
