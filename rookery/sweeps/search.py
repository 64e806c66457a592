"""Searching: asking for the next trial, and ending trials that are behind the others.

Whoever finds no cell of the trials so far that is free asks for another trial and writes it
into the plan, one process at a time. From then on its cells are like those of any sweep: a
killed one is continued, and a trial is never asked for or trained twice.
"""

from __future__ import annotations

import numpy as np

from rookery.errors import ConfigError, RookeryError
from rookery.rng import Purpose, keyed_seed
from rookery.stop import StopFlag, Stopped
from rookery.sweeps.axes import MOST_CELLS
from rookery.sweeps.claimed import claimed
from rookery.sweeps.optuna_study import is_behind, record, suggest
from rookery.sweeps.plan import Cell, Group, Plan, read_plan
from rookery.sweeps.pruned import is_pruned, mark_pruned
from rookery.sweeps.search_plan import add_trial, close_search, trial_group
from rookery.sweeps.search_record import Search, recorded_search
from rookery.sweeps.search_space import combination_at, size_of
from rookery.sweeps.trials import RUNNING, Trial, Trials, evaluations
from rookery.training.training import Round


class Pruned(Stopped):
    """The trial of a cell was ended early; raised after a round, and the cell is saved."""


def ask(plan: Plan, stop: StopFlag) -> Plan:
    """Return the plan with another trial, unless another process has just added one.

    Args:
        plan: of a search, in which trials are still open.
        stop: asks to leave.

    Raises:
        Stopped: if asked to, while other processes change the plan.
        ConfigError: if Optuna is not installed, or no combination is possible.
    """
    with claimed(plan.folder, stop) as claim:
        content = read_plan(plan.folder)
        search = recorded_search(content)
        planned = len(content["groups"])
        if planned == len(plan.groups) < search.trials:
            trials = Trials(plan.folder).read(content)
            group = _next_group(plan, trials)
            claim.check()
            if group is None:
                close_search(plan, search)
            else:
                add_trial(plan, group, search)
                trials.append(Trial(group.folder, group.settings))
            record(plan.folder, search, trials)
    return Plan(plan.folder, plan.named)


def keep_record(plan: Plan) -> None:
    """Write down what has become of all trials, for Optuna's own tools to see."""
    with claimed(plan.folder, StopFlag()):
        content = read_plan(plan.folder)
        trials = Trials(plan.folder).read(content)
        record(plan.folder, recorded_search(content), trials)


def _search(plan: Plan) -> Search:
    assert plan.search is not None
    return plan.search


def _next_group(plan: Plan, trials: list[Trial]) -> Group | None:
    """Return the group of the next trial; None if every possible one was tried.

    A combination that is impossible, or that gives a configuration that was tried before
    and so the same bits, is not suggested again.
    """
    tried = {group.config for group in plan.groups}
    known = [group.settings for group in plan.groups]
    accepted: list[Group] = []
    refusals: list[RookeryError] = []

    def accept(settings: dict[str, str]) -> bool:
        if settings in known:
            return False
        known.append(settings)
        try:
            group = trial_group(plan, settings)
        except RookeryError as error:
            refusals.append(error)
            return False
        if group.config not in tried:
            accepted.append(group)
        return bool(accepted)

    search = _search(plan)
    if suggest(plan.folder, search, trials, accept):
        return accepted[0]
    size = size_of(search.space)
    if size is not None and size <= MOST_CELLS:
        # One of those that are left: of a small space, few may be.
        seed = keyed_seed(search.seed, Purpose.SEARCH, len(trials))
        for index in np.random.default_rng(seed).permutation(size).tolist():
            if accept(combination_at(search.space, index)):
                return accepted[0]
    elif refusals:
        raise ConfigError(
            f"no combination that is possible was found in {len(refusals)} tries, the last "
            f"one because: {refusals[-1]}"
        )
    return None


class Judge:
    """Ends a cell while it is trained, if its trial is behind the others.

    Args:
        plan: of the search.
        cell: which is trained now.
    """

    def __init__(self, plan: Plan, cell: Cell) -> None:
        self._plan, self._cell, self._search = plan, cell, _search(plan)
        self._trials = Trials(plan.folder)
        self._judged = -1
        """The last round whose evaluation was judged; -1 before the first look."""

    def look(self, result: Round) -> None:
        """Judge what was evaluated since the last look.

        Raises:
            Pruned: if the trial is ended; the cell is saved then.
        """
        if result.number >= self._search.rounds:
            return  # it is complete
        if self._is_pruned():
            raise Pruned
        if self._search.prunes and (result.matches or self._judged < 0):
            self._judge()
            if self._is_pruned():
                raise Pruned

    def end(self) -> None:
        """Judge the last evaluation of a cell that is complete: others may have to stop."""
        if self._search.prunes and not self._is_pruned():
            self._judge()

    def _is_pruned(self) -> bool:
        return is_pruned(self._plan.folder, self._cell.group.folder)

    def _judge(self) -> None:
        """Judge every new evaluation as if it was the last one so far.

        Of those from before this process only the last one: earlier ones were judged then.
        """
        measured = evaluations(self._cell.folder, self._search.metric, self._search.rounds)
        new = sorted(number for number in measured if number > self._judged)
        if self._judged < 0:
            new = new[-1:]
        self._judged = max([0, *new])
        for number in new:
            trials = self._trials.read(read_plan(self._plan.folder))
            trial = next(x for x in trials if x.folder == self._cell.group.folder)
            if trial.state != RUNNING:
                return
            if is_behind(self._search, trials, trial.until(number)):
                value = trial.at_rounds[number]
                mark_pruned(self._plan.folder, trial.folder, number, value)
                return
