"""The commands of `rookery sweep` that show and export results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rookery.cli.options import AsJson
from rookery.errors import ConfigError
from rookery.printing import out, print_json, say

if TYPE_CHECKING:
    from rookery.sweeps.scores import SweepScores
    from rookery.sweeps.tables import References

SweepFolder = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="The folder of the sweep.")
]
NamedGames = Annotated[
    list[str] | None, typer.Option("--game", help="A game of the sweep, if not built in.")
]
Picture = Annotated[
    Path | None,
    typer.Option(help="The file to draw learning curves and scores into: x.png, x.pdf."),
]
Drawn = Annotated[
    str | None,
    typer.Option(
        "--metric",
        help="What --picture draws: return, trained, a count of the game, or a metric such "
        "as loss.",
    ),
]


def table(
    folder: SweepFolder,
    picture: Picture = None,
    metric: Drawn = None,
    games: NamedGames = None,
    as_json: AsJson = False,
) -> None:
    """Print scores over seeds, with intervals, for every combination, so far.

    With several games also over all of them, from random (0) to scripted (1).
    """
    from rookery.api.sweep_results import Sweep
    from rookery.api.sweep_text import sweep_tables
    from rookery.cli.output import print_tables
    from rookery.evaluation.images import save_figure
    from rookery.sweeps.tables import results_of

    if metric is not None and picture is None:
        raise ConfigError("--metric chooses what --picture draws: add --picture x.png.")
    scores, references = _open(folder, games)
    results = results_of(scores, references)
    if picture is not None:
        axes = Sweep(folder).plot(metric or scores.metric(None))
        save_figure(axes.figure, picture)
    if as_json:
        print_json(results.to_json())
    else:
        width = out.width if out.is_terminal else None
        print_tables(out, *sweep_tables(results, width))


def export(
    folder: SweepFolder,
    file: Annotated[Path, typer.Argument(help="x.npz or x.json; for marl-eval x.json.")],
    format: Annotated[
        str, typer.Option(help="The package that reads it: rliable or marl-eval.")
    ] = "rliable",
    metric: Annotated[
        str | None, typer.Option(help="trained, return, or a count of the game.")
    ] = None,
    games: NamedGames = None,
) -> None:
    """Write the scores of all finished cells for rliable or marl-eval."""
    from rookery.sweeps.export import export_scores

    scores, references = _open(folder, games)
    for note in export_scores(scores, file, format, metric, references):
        say(f"warning: {note}")
    say(f"{file} is written")


def _open(folder: Path, games: list[str] | None) -> tuple[SweepScores, References]:
    """Return the scores of a sweep, and what to normalise them by."""
    from rookery.sweeps.references import references_of
    from rookery.sweeps.scores import SweepScores

    scores = SweepScores(folder)
    return scores, references_of(scores, games or [], say)
