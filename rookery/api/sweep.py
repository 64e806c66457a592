"""`rookery.sweep`: many runs in one folder."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rookery.api.cells_progress import CellsProgress
from rookery.api.display import in_notebook
from rookery.api.sweep_results import Sweep
from rookery.config.messages import KeyPath, shown, toml_value
from rookery.config.parse import plain
from rookery.config.run import all_in_one
from rookery.errors import ConfigError, RookeryError, checked, warn
from rookery.games.registry import find
from rookery.local_code import is_code, is_local, name_of, short_name
from rookery.printing import command, err, say
from rookery.runs.configure import tree_of
from rookery.stdio import guarded
from rookery.stop import StopFlag, Stopped
from rookery.sweeps.axes import Axis, Question, flat, parse_seeds
from rookery.sweeps.cells import (
    STATES,
    WAITING,
    failures,
    is_done,
    rounds_of,
    state_of,
    summary_of,
    unlike,
)
from rookery.sweeps.local import LocalSweep
from rookery.sweeps.optuna_study import check_optuna
from rookery.sweeps.plan import Plan
from rookery.sweeps.planning import named_in, new_plan
from rookery.sweeps.search import keep_record
from rookery.sweeps.search_plan import SearchQuestion, code_named_in, plan_search
from rookery.sweeps.search_space import Dimension, choices_of, range_of
from rookery.sweeps.search_status import SearchStatus, search_status
from rookery.sweeps.tally import Outcome, Say
from rookery.sweeps.trust import Named

MOST_NAMED = 10
"""Cells that an error names."""


class CellsFailed(RookeryError):
    """Some cells of a sweep have failed; the others are done."""


@dataclass(frozen=True)
class SweepStatus:
    """How many cells of a sweep are done, running, failed, stopped and waiting."""

    sweep: str
    cells: int
    done: int
    pruned: int
    """Of trials that a search has ended early."""
    running: int
    failed: int
    stopped: int
    """Begun, saved, and trained by nobody now."""
    waiting: int
    """Not begun."""
    failures: dict[str, str]
    """One line for each cell that has failed."""
    unlike: dict[str, str]
    """Why a cell may differ from the others, such as another version of torch."""
    search: SearchStatus | None
    """How far the trials are, if it is a search."""

    @property
    def left(self) -> int:
        """How many cells are neither done nor pruned nor failed."""
        return self.cells - self.done - self.pruned - self.failed

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {**asdict(self), "left": self.left}

    def __str__(self) -> str:
        counts = [f"{getattr(self, name)} {name}" for name in STATES if getattr(self, name)]
        lines = [f"{self.sweep}: {self.cells} cells: {', '.join(counts)}"]
        lines += self.search.lines() if self.search else []
        lines += [f"{name} failed: {line}" for name, line in self.failures.items()]
        lines += [
            f"{name} is unlike the others: {why}" for name, why in self.unlike.items()
        ]
        return "\n".join(lines)


def status_of(plan: Plan) -> SweepStatus:
    """Return how far all cells of a sweep are."""
    if plan.search is not None:  # it may have other trials by now
        plan = Plan(plan.folder, plan.named)
    states = [state_of(plan, cell) for cell in plan.cells]
    counts = {name: states.count(name) for name in STATES}
    return SweepStatus(
        str(plan.folder),
        len(states),
        **counts,
        failures=failures(plan),
        unlike=unlike(plan),
        search=search_status(plan),
    )


def train_sweep(
    plan: Plan,
    stop: StopFlag,
    quiet: bool,
    say: Say,
    warn: Say,
    engine: Callable[..., Any] = LocalSweep,
) -> Outcome:
    """Train all cells that are not done, with progress.

    Several processes can do this at the same time, on the same sweep: they share out the
    cells, and each returns when all are done.

    Args:
        plan: of the sweep.
        stop: asks all cells to save and leave.
        quiet: whether to show no progress.
        say: called with lines for the user.
        warn: called with the cells' warnings.
        engine: what trains them: `LocalSweep`, or what is made with the same arguments.

    Raises:
        Stopped: if asked to stop; all cells are saved.
        CellsFailed: if some have failed.
    """
    if plan.search is not None:
        check_optuna()
    folders = {cell.name: cell.folder for cell in plan.cells}
    rounds = {cell.name: rounds_of(cell) for cell in plan.cells}
    labels = {cell.name: cell.label for cell in plan.cells}
    with CellsProgress(err, folders, rounds, quiet, labels, plan.noun) as progress:
        outcome: Outcome = engine(plan, stop, progress, say, warn).run()
    if plan.search is not None:
        keep_record(plan)
    if outcome.failed:
        raise failure_of(plan, outcome.failed)
    return outcome


def failure_of(plan: Plan, failed: Mapping[str, str]) -> CellsFailed:
    """Return the error for cells that have failed."""
    if plan.is_seeds:
        cells = [cell for cell in plan.cells if cell.name in failed]
        lines = [f"{cell.label} failed: {failed[cell.name]}" for cell in cells]
        return CellsFailed("; ".join(lines))
    names = [*list(failed)[:MOST_NAMED], *(["…"] if len(failed) > MOST_NAMED else [])]
    first = next(iter(failed.values())).rstrip(".")
    again = command("sweep", "go", plan.folder, *plan.named.arguments())
    return CellsFailed(
        f"{len(failed)} of {len(plan.cells)} cells failed: {', '.join(names)}. The first: "
        f"{first}. Try them again with: {again}"
    )


def train_cells(plan: Plan, progress: bool | None) -> None:
    """Train all cells as `rookery.train` and `rookery.sweep` do.

    Warnings are Python warnings, and Ctrl-C stops and saves all cells.

    Args:
        plan: of the sweep.
        progress: whether to show it; None in a terminal or a notebook only.
    """
    quiet = progress is False
    if progress is None:
        quiet = not (err.is_terminal or in_notebook())
    tell = _ignore if quiet else say
    stop = StopFlag()
    is_main = threading.current_thread() is threading.main_thread()
    try:
        with stop.listening() if is_main else nullcontext():
            train_sweep(plan, stop, quiet, tell, warn)
        if (search := search_status(plan)) and search.best:
            tell(str(search.best))
    except Stopped:
        for line in lines_when_stopped(plan):
            tell(line)
        raise KeyboardInterrupt from None


def lines_when_stopped(plan: Plan) -> list[str]:
    """Return what to tell about a sweep that `rookery resume` can go on with."""
    named = plan.named.arguments()
    code = [word.replace("--probe=", "probe.code=") for word in named]
    lines = [f"Stopped. Resume: {command('resume', plan.folder, *code)}"]
    if waiting := sum(state_of(plan, cell) == WAITING for cell in plan.cells):
        lines.append(f"{waiting} of the {plan.noun} had not started; resuming starts them.")
    return lines


def summaries_of(plan: Plan) -> dict[str, Any]:
    """Return what `rookery train --json` prints of a sweep, or of several seeds."""
    done = [cell for cell in plan.cells if is_done(cell)]
    if plan.is_seeds:
        done.sort(key=lambda cell: cell.seed)
        cells = {str(cell.seed): summary_of(cell) for cell in done}
    else:
        cells = {cell.name: summary_of(cell) for cell in done}
    return {"run": str(plan.folder), plan.noun: cells}


@guarded()
def sweep(
    games: str | type | Sequence[str | type],
    /,
    *,
    vary: Mapping[str | tuple[str, ...], Iterable[Any]] | None = None,
    seeds: str | Iterable[int] = (0,),
    run: str | Path | None = None,
    progress: bool | None = None,
    search: str | None = None,
    trials: int | None = None,
    metric: str | None = None,
    pruning: bool = True,
    search_seed: int = 0,
    **settings: Any,
) -> Sweep:
    """Train every combination of games, settings and seeds, and return the sweep.

    With `search="optuna"`, only as many combinations as there are `trials`, each suggested
    by Optuna from the scores of those before.

    Args:
        games: one or several, by name or as classes.
        vary: the values of every setting to vary: `{"learning_rate": [1e-4, 3e-4]}`. A
            tuple of names varies together: `{("worlds", "batch_size"): [(8, 32)]}`. In a
            search also ranges: "1..8" are whole numbers, "0.5..0.99" is any number in
            between, and "1e-5..1e-2..log" the same on a logarithmic scale.
        seeds: of every combination, as for `rookery.train`.
        run: the folder; by default the next free one in runs/. If it is that of a sweep
            with the same plan, it is continued.
        progress: as for `rookery.train`.
        search: 'optuna' to search for the best settings.
        trials: how many combinations a search tries.
        metric: what a search maximises, after its mean over seeds was taken: `trained`, the
            return in the last evaluation, or a count of the game. By default `trained`, or
            `return` without evaluations.
        pruning: whether a search ends trials early that are behind the others; they are
            compared in every evaluation.
        search_seed: decides what a search suggests.
        **settings: that all cells have in common, as for `rookery.train`.

    Classes must be in files, so that the processes that train the cells can import them.
    """
    listed = [games] if isinstance(games, str | type) else list(games)
    names = tuple(game if isinstance(game, str) else find(game).name for game in listed)
    fixed = tuple(f"{key}={value}" for key, value in flat(_plain(tree_of(settings))))
    question = Question(names, (), tuple(parse_seeds(seeds)), fixed)
    folder = None if run is None else Path(run)
    if search is not None:
        _check_search(search, trials, metric, pruning, search_seed)
        space, single = _space(vary or {})
        fixed = (*fixed, *single)
        asked = SearchQuestion(
            replace(question, fixed=fixed),
            space,
            trials,
            search,
            search_seed,
            metric,
            pruning,
        )
        named = _importable(code_named_in(asked))
        plan = plan_search(asked, folder, named)
    elif trials is not None:
        raise ConfigError(f"trials={trials} needs search='optuna'.")
    else:
        axes = tuple(_axis(keys, values) for keys, values in (vary or {}).items())
        question = replace(question, axes=axes)
        plan = new_plan(question, folder, _importable(named_in(question)))
    train_cells(plan, progress)
    return Sweep(plan.folder)


def _check_search(
    search: Any, trials: Any, metric: Any, pruning: Any, search_seed: Any
) -> None:
    """Check the kinds of the arguments of a search."""
    checked("search", search, str)
    if trials is not None:
        checked("trials", trials, int)
    if metric is not None:
        checked("metric", metric, str)
    checked("pruning", pruning, bool)
    checked("search_seed", search_seed, int)


def _importable(named: Named) -> Named:
    """Return code that a sweep names, if the processes of its cells can import it."""
    for code in (*named.games, *named.algorithms, *named.probes):
        if is_local(code):
            raise ConfigError(
                f"{short_name(code)} is defined in a notebook or a script, where the "
                "processes of a sweep cannot import it: put it into a file."
            )
    return named


def _space(
    vary: Mapping[str | tuple[str, ...], Iterable[Any]],
) -> tuple[tuple[Dimension, ...], list[str]]:
    """Return what a search varies, and the settings that have a single value."""
    space, fixed = list[Dimension](), list[str]()
    for keys, values in vary.items():
        if isinstance(keys, str) and isinstance(values, str):
            space.append(range_of(keys, values))
            continue
        choices = choices_of(_axis(keys, values))
        if isinstance(choices, Axis):
            pairs = choices.steps()[0].items()
            fixed += [f"{key}={value}" for key, value in pairs]
        else:
            space.append(choices)
    return tuple(space), fixed


def _ignore(line: str) -> None:
    """Show nothing."""


def _axis(keys: str | tuple[str, ...], values: Iterable[Any]) -> Axis:
    names = (keys,) if isinstance(keys, str) else tuple(keys)
    if isinstance(values, str):
        raise ConfigError(
            f"vary has {shown(values)} for {', '.join(names)}: give a list of values; only "
            "with search='optuna' can one setting have a range."
        )
    steps = []
    for value in values:
        step = (value,) if isinstance(keys, str) else tuple(value)
        if len(step) != len(names):
            raise ConfigError(
                f"vary has {len(step)} values for {', '.join(names)}: give one for each."
            )
        steps.append(tuple(toml_value(_plain(part)) for part in step))
    if not steps:
        raise ConfigError(f"vary has no values for {', '.join(names)}: give some.")
    return Axis(names, tuple(steps))


def _plain(value: Any) -> Any:
    """Return a value as a file would give it, with names in place of code."""
    problems: dict[KeyPath, str] = {}
    result = plain(name_of(value) if is_code(value) else value, (), problems)
    if problems:
        raise all_in_one(list(problems.values()))
    return result
