"""The scores of a sweep in the formats of other packages: rliable and marl-eval.

Both expect complete data: only finished cells count, and what has to be left out is named.

rliable      a (runs × tasks) array for every variant: .npz, or .json, which also names the
             tasks and the seeds
marl-eval    JSON: environment, task, algorithm, run, step, with the metrics of each step
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rookery.errors import ConfigError, nearest
from rookery.runs.log import EVALUATIONS, read_lines
from rookery.runs.overview import Overview
from rookery.runs.plots import binned
from rookery.storage.access import cannot_write
from rookery.storage.files import replace_whole
from rookery.sweeps.scores import RETURN, TRAINED, CellScores, SweepScores
from rookery.sweeps.tables import NORMALISED, References

RLIABLE, MARL_EVAL = "rliable", "marl-eval"
FORMATS = (RLIABLE, MARL_EVAL)
ENVIRONMENT = "rookery"
STEPS = 10
"""Without evaluations, each step is the mean over this part of the training."""


class Finished(NamedTuple):
    """The finished cells of a sweep that make up complete data."""

    tasks: list[str]
    seeds: dict[str, list[int]]
    """Of every variant: the seeds that are finished in all tasks."""
    notes: list[str]
    """Lines about what is left out."""


def export_scores(
    scores: SweepScores,
    path: Path,
    format: str,
    metric: str | None = None,
    references: References | None = None,
) -> list[str]:
    """Write the scores of all finished cells to a file; return lines about the others.

    Args:
        scores: of the sweep.
        path: the file; its ending chooses between .npz and .json.
        format: one of FORMATS.
        metric: the name of the score; by default `trained` or `return`.
        references: of every task, to normalise returns by; by default they are raw.

    Raises:
        ConfigError: if there is nothing to export, or the file cannot be written.
    """
    if format not in FORMATS:
        raise ConfigError(f"unknown format '{format}': {nearest(format, FORMATS)}")
    endings = (".json",) if format == MARL_EVAL else (".npz", ".json")
    if path.suffix not in endings:
        raise ConfigError(
            f"{path} does not end in {' or '.join(endings)}, which {format} reads: name "
            "another file."
        )
    metric = scores.metric(metric)
    if format == MARL_EVAL:
        data, notes = _marl_eval(scores, metric, references or {})
    else:
        is_return = metric in (TRAINED, RETURN)
        used = references if references and is_return else {}
        data, notes = _rliable(scores, metric, used, path.suffix == ".npz")
    try:
        replace_whole(path, data)
    except OSError as error:
        raise cannot_write(path, error) from error
    return notes


def _rliable(
    scores: SweepScores, metric: str, references: References, is_npz: bool
) -> tuple[bytes, list[str]]:
    usable = [x for x in scores.tasks if not references or not references[x].why]
    why = [references[task].why for task in scores.tasks if task not in usable]
    tasks, seeds, notes = _finished(scores, metric, usable)
    arrays = {}
    for variant, own in seeds.items():
        arrays[variant] = scores.matrix(variant, metric, tasks, own)
        for i, task in enumerate(tasks):
            if references:
                column = arrays[variant][:, i]
                arrays[variant][:, i] = references[task].normalise(column)
    if is_npz:
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)  # type: ignore[arg-type]
        return buffer.getvalue(), [*why, *notes]
    content = {
        "metric": NORMALISED if references else metric,
        "tasks": tasks,
        "seeds": seeds,
        "scores": {variant: array.tolist() for variant, array in arrays.items()},
    }
    return json.dumps(content, indent=2).encode(), [*why, *notes]


def _finished(scores: SweepScores, metric: str, tasks: Sequence[str]) -> Finished:
    """Return the complete part of the data.

    Raises:
        ConfigError: if there is none.
    """
    done = {
        (cell.group.variant, cell.group.task, cell.seed)
        for cell in scores.cells
        if cell.is_finished and metric in cell.scores
    }
    seeds = {
        variant: [s for s in scores.seeds if all((variant, x, s) in done for x in tasks)]
        for variant in scores.variants
    }
    complete = {variant: own for variant, own in seeds.items() if own and tasks}
    if not complete:
        raise ConfigError(
            f"{scores.folder} has no variant with a seed that is finished in all games: "
            "let it train."
        )
    notes = [
        f"{variant}: {len(own) or 'no'} of {len(scores.seeds)} seeds, the others are not "
        "finished in all games"
        for variant, own in seeds.items()
        if len(own) < len(scores.seeds)
    ]
    return Finished(list(tasks), complete, notes)


def _marl_eval(
    scores: SweepScores, metric: str, references: References
) -> tuple[bytes, list[str]]:
    """Return the file; every algorithm has the same seeds and the same number of steps."""
    tasks, seeds, notes = _finished(scores, metric, scores.tasks)
    common = [x for x in scores.seeds if all(x in own for own in seeds.values())]
    if not common:
        raise ConfigError(
            f"{scores.folder} has no seed that is finished in all variants, and marl-eval "
            "needs the same number of runs of each: let it train, or export for rliable."
        )
    if any(len(own) > len(common) for own in seeds.values()):
        notes.append(f"only the {len(common)} seeds that all variants have are exported")
    is_normalised = bool(references) and not any(x.why for x in references.values())
    cells = {(x.group.task, x.group.variant, x.seed): x for x in scores.cells}
    wanted = [(t, v, s) for t in tasks for v in seeds for s in common]
    steps_of = {key: _steps(cells[key], metric) for key in wanted}
    fewest = min(map(len, steps_of.values()))
    if any(len(steps) > fewest for steps in steps_of.values()):
        notes.append(f"only the first {fewest} evaluations, which all runs have")
    tree: dict[str, Any] = {}
    for (task, variant, seed), steps in steps_of.items():
        cell, run = cells[task, variant, seed], {}
        values = [*steps[:fewest], (0, cell.scores[metric])]
        for number, (count, value) in enumerate(values, start=1):
            is_last = number > fewest
            measured: dict[str, Any] = {} if is_last else {"step_count": count}
            measured[RETURN if metric == TRAINED else metric] = [value]
            if is_normalised and metric in (TRAINED, RETURN):
                measured[NORMALISED] = [float(references[task].normalise(value))]
            run["absolute_metrics" if is_last else f"step_{number}"] = measured
        algorithms = tree.setdefault(_clean(task), {})
        algorithms.setdefault(_clean(variant), {})[f"seed_{seed}"] = run
    return json.dumps({ENVIRONMENT: tree}, indent=2).encode(), notes


def _steps(cell: CellScores, metric: str) -> list[tuple[int, float]]:
    """Return the world-turns so far and the mean over agents, step by step."""
    overview = cell.overview
    settings = overview.settings
    world_turns = int(settings["worlds"]) * int(settings["turns_per_round"])
    if metric == TRAINED:
        points = _evaluations(overview)
    else:
        edges = np.linspace(0, overview.rounds, STEPS + 1).round().astype(int)
        edges = np.unique(edges)
        curves = overview.curves(metric).values()
        means = np.mean([binned(edges, *points) for points in curves], axis=0)
        points = list(zip(edges[1:].tolist(), means.tolist(), strict=True))
    return [(number * world_turns, value) for number, value in points]


def _evaluations(overview: Overview) -> list[tuple[int, float]]:
    lines: Iterable[dict[str, Any]] = read_lines(overview.path / EVALUATIONS)
    return [
        (int(line["round"]), float(line["mean"]))
        for line in lines
        if line.get("players") == "greedy" and line.get("mean") is not None
    ]


def _clean(name: str) -> str:
    """Return a name as marl-eval looks it up: in lower case."""
    return re.sub(r"\s+", "_", name.replace(", ", ",")).lower()
