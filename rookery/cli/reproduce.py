"""`rookery reproduce`: a named result again."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rookery.cli.options import AsJson, Overrides, Until, flag
from rookery.cli.until import end_time
from rookery.errors import ConfigError
from rookery.printing import command, print_json, say, tell
from rookery.stop import UNFINISHED, StopFlag, Stopped

if TYPE_CHECKING:
    from rookery.reproduction.catalogue import Result


def reproduce(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A result that --list lists.")
    ] = None,
    overrides: Overrides = None,
    list_all: Annotated[bool, flag("--list", "List the results.")] = False,
    folder: Annotated[
        Path | None,
        typer.Option("--run", help="The folder for its runs; continued if it has begun."),
    ] = None,
    until: Until = None,
    as_json: AsJson = False,
) -> None:
    """Train and measure a named result again; the exit code is 1 if it is not reached.

    With other settings than its own, it shows what the result depends on.
    """
    from rookery.reproduction.catalogue import CATALOGUE, find_result

    if list_all:
        if as_json:
            print_json({"results": [result.to_json() for result in CATALOGUE]})
        else:
            tell(_list(CATALOGUE))
        return
    if name is None:
        raise ConfigError("no result given: `rookery reproduce --list` lists them.")
    _reproduce(find_result(name), overrides or [], folder, until, as_json)


def _list(results: tuple[Result, ...]) -> str:
    from rookery.api.text_table import TextTable

    table = TextTable("result", ["expected", "accepted", "seeds", "minutes", ""])
    for result in results:
        low, high = result.accepts
        marks = ["long"] * result.is_long + ["unconfirmed"] * (not result.is_confirmed)
        numbers = [f"{result.expected:.4g}", f"{low:.4g} to {high:.4g}"]
        numbers += [str(result.seeds), f"{result.minutes:g}"]
        table.rows.append((result.name, [*numbers, ", ".join(marks)]))
    lines = table.lines()
    return "\n".join(
        [lines[0]]
        + [
            f"{line}\n    {result.summary}"
            for line, result in zip(lines[1:], results, strict=True)
        ]
    )


def _reproduce(
    result: Result,
    overrides: list[str],
    folder: Path | None,
    until: str | None,
    as_json: bool,
) -> None:
    from rookery.api.sweep import train_sweep
    from rookery.reproduction.reproduce import compare, plan_of

    begun, stop = time.monotonic(), StopFlag(end_time(until))
    plan = plan_of(result, folder, overrides)
    if not as_json:
        say(f"{plan.folder}: {result.seeds} seeds, about {result.minutes:g} min")
    try:
        with stop.listening(to_the_end=True):
            train_sweep(plan, stop, as_json, say, lambda line: say(f"warning: {line}"))
    except Stopped:
        again = command("reproduce", result.name, *overrides, "--run", plan.folder)
        say(f"stopped; go on with: {again}")
        sys.exit(UNFINISHED)
    reached = compare(result, plan, begun, bool(overrides))
    if as_json:
        print_json(reached.to_json())
    else:
        tell(str(reached))
    if not reached.passed:
        raise typer.Exit(1)
