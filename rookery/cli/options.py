"""What commands can be given: arguments and options that several of them have."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from rookery.errors import ConfigError


def print_version(asked: bool) -> None:
    """Print which release this is, and end, if that was asked."""
    if asked:
        print(f"rookery {version('rookery')}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option(
        "--version", callback=print_version, is_eager=True, help="Print it and exit."
    ),
]
Game = Annotated[
    str | None,
    typer.Argument(
        help="A name from `rookery games`, ./file.py:Class, pettingzoo:… or gymnasium:…"
    ),
]
Overrides = Annotated[
    list[str] | None, typer.Argument(help="Settings, such as game.agents=4 seed=3.")
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="A TOML file of settings.")
]
Players = Annotated[
    str | None, typer.Option(help="One player for all agents, or one per agent: a,b,c.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
GameOrRun = Annotated[
    str | None, typer.Argument(help="A game, or the folder of a run that was trained.")
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]
NamedGame = Annotated[
    str | None, typer.Option("--game", help="The run's game, if it is a file of yours.")
]
NamedAlgorithms = Annotated[
    list[str] | None,
    typer.Option("--algorithm", help="An algorithm of the run that is a file of yours."),
]
Folder = Annotated[Path | None, typer.Option("--run", help="The folder of the run.")]


def refuse_for_runs(**options: object) -> None:
    """Refuse options that only a game can be played with."""
    for name, value in options.items():
        if value is not None:
            raise ConfigError(
                f"--{name} is for games, and this is a run, which has its own: leave "
                f"--{name} out, or name the game."
            )
