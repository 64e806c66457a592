"""Commands for studies of trained agents: what they share, and who gets on with whom."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from rookery.arguments import AsJson, NamedAlgorithms, NamedGame, RunFolder

out = Console()
err = Console(stderr=True)


def add_to(app: typer.Typer) -> None:
    """Add these commands to the others."""
    app.command()(independence)


def independence(
    run: RunFolder,
    named_game: NamedGame = None,
    named_algorithms: NamedAlgorithms = None,
    as_json: AsJson = False,
) -> None:
    """Prove that agents share nothing: alter one, compare the others bit by bit."""
    opened = import_module("rookery.runs").Run(run, named_game, named_algorithms or [])
    with err.status("playing a few short rounds …") as status:
        found = import_module("rookery.proof").independence(
            opened, lambda done, of: status.update(f"{done} of {of} trainings compared …")
        )
    if as_json:
        print(json.dumps(found.to_json(), indent=2))
    else:
        _print_independence(found)
    if not found.is_independent:
        raise typer.Exit(1)


def _print_independence(found: Any) -> None:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("altered in another agent")
    cells = found.table()
    for agent in cells:
        table.add_column(f"agent {agent}")
    hows = list(dict.fromkeys(how for one in cells.values() for how in one))
    for how in hows:
        table.add_row(how, *(one.get(how, "–") for one in cells.values()))
    out.print(table)
    for line in [*found.lines(), found.verdict]:
        out.print(line, markup=False, highlight=False, soft_wrap=True)
