"""The commands `crossplay` and `independence`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rookery.cli.options import AsJson, NamedAlgorithms, NamedGame, RunFolder
from rookery.errors import ConfigError
from rookery.printing import err, out, print_json, tell

if TYPE_CHECKING:
    from rookery.runs.run import Run

Populations = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN",
        help="Runs, folders of seeds, or players; and evaluate.episodes=50, seed=0.",
    ),
]
Picture = Annotated[
    Path | None, typer.Option(help="The file to write the matrix to as an image: x.png.")
]
SETTINGS = {"evaluate.episodes": "episodes", "seed": "seed"}
"""The settings of `crossplay`, and the parameters they are passed as."""


def crossplay(
    populations: Populations,
    picture: Picture = None,
    named_game: NamedGame = None,
    named_algorithms: NamedAlgorithms = None,
    as_json: AsJson = False,
) -> None:
    """Play agents of several runs together, and report the return of each among others."""
    from rich.table import Table

    from rookery.runs.folder import is_run
    from rookery.studies.crossplay import crossplay

    # The folders of sweeps are named after settings.
    settings = [word for word in populations if "=" in word and not is_run(Path(word))]
    names = [word for word in populations if word not in settings]
    opened = [_open(name, named_game, named_algorithms or []) for name in names]
    parsed = _parse_settings(settings)
    with err.status("playing the first pairing …") as status:
        result = crossplay(
            opened,
            **parsed,
            progress=lambda done, of: status.update(f"{done} of {of} pairings played …"),
        )
    if as_json:
        print_json(result.to_json())
    else:
        header, *rows = result.rows()
        table = Table(box=None, header_style="bold", pad_edge=False)
        table.add_column(header[0], style="cyan")
        for name in header[1:]:
            table.add_column(name, justify="right", overflow="fold")
        for row in rows:
            table.add_row(*row)
        out.print(table)
        tell(result.note, style="dim")
    if picture is not None:
        result.heat_map(picture)


def _open(name: str, game: str | None, algorithms: list[str]) -> str | Run | list[Run]:
    """Return a run, the runs of a folder of seeds, or a player's name."""
    from rookery.runs.folder import is_run, seeds_of
    from rookery.runs.run import Run

    path = Path(name)
    if not is_run(path):
        return name
    runs = [Run(folder, game, algorithms) for folder in seeds_of(path) or [path]]
    return runs if len(runs) > 1 else runs[0]


def _parse_settings(overrides: list[str]) -> dict[str, Any]:
    settings = {}
    for override in overrides:
        key, _, value = override.partition("=")
        if (
            key not in SETTINGS
            or not value.isdecimal()
            or override == "evaluate.episodes=0"
        ):
            raise ConfigError(
                f"'{override}' cannot be set here; evaluate.episodes=50 and seed=0 can."
            )
        settings[SETTINGS[key]] = int(value)
    return settings


def independence(
    run: RunFolder,
    named_game: NamedGame = None,
    named_algorithms: NamedAlgorithms = None,
    as_json: AsJson = False,
) -> None:
    """Prove that agents share nothing: alter one, and compare the others bit by bit."""
    from rich.table import Table

    from rookery.runs.run import Run
    from rookery.studies.independence.proof import independence

    opened = Run(run, named_game, named_algorithms or [])
    with err.status("playing a few short rounds …") as status:
        report = independence(
            opened, lambda done, of: status.update(f"{done} of {of} trainings compared …")
        )
    if as_json:
        print_json(report.to_json())
    else:
        effects = report.table()
        table = Table(box=None, header_style="bold", pad_edge=False)
        table.add_column("altered in another agent")
        for agent in effects:
            table.add_column(f"agent {agent}")
        for how in dict.fromkeys(how for cells in effects.values() for how in cells):
            table.add_row(how, *(cells.get(how, "–") for cells in effects.values()))
        out.print(table)
        for line in [*report.lines(), report.conclusion]:
            tell(line)
    if not report.is_independent:
        raise typer.Exit(1)
