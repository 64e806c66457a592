"""Optuna: suggesting settings, and judging who is behind. No other module imports it.

The study is in a journal in the folder of the sweep, as Optuna writes it; no server is
needed, and Optuna's own tools can open it. It follows what the plan and the runs' folders
say: it is brought up to date before every question, so whatever is killed, no trial is
lost, and none stays `running` for ever. A journal that was damaged, or that says something
else, is written again. Only a process that holds the claim of the sweep writes to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

from rookery.errors import ConfigError
from rookery.rng import Purpose, keyed_seed
from rookery.storage.access import cannot_write
from rookery.storage.files import mend
from rookery.sweeps.search_record import Search
from rookery.sweeps.search_space import Dimension
from rookery.sweeps.trials import COMPLETE, FAILED, PRUNED, RUNNING, Trial

JOURNAL = "optuna.journal"
LOCK = ".lock"
"""What Optuna appends to the name of the journal, for the file that locks it."""
STUDY = "rookery"
TRIES = 100
"""Suggestions that may be refused before the next trial."""


def check_optuna() -> None:
    """Check that Optuna is installed.

    Raises:
        ConfigError: if it is not.
    """
    with _optuna():
        pass


@contextmanager
def _optuna() -> Iterator[Any]:
    """Import Optuna, and let it print warnings only within this context."""
    try:
        import optuna
    except ModuleNotFoundError as error:
        if error.name != "optuna":
            raise
        raise ConfigError(
            "--search optuna needs Optuna: pip install 'rookery[optuna]'"
        ) from error
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield optuna
    finally:
        optuna.logging.set_verbosity(before)


def record(folder: Path, search: Search, trials: Sequence[Trial]) -> None:
    """Bring the journal up to date.

    Args:
        folder: of the sweep, which this process has claimed.
        search: in its plan.
        trials: all of them, in order.
    """
    with _optuna() as optuna:
        _Journal(optuna, folder, search).bring_up_to_date(trials)


def suggest(
    folder: Path,
    search: Search,
    trials: Sequence[Trial],
    accept: Callable[[dict[str, str]], bool],
) -> bool:
    """Suggest settings for the next trial until some are accepted.

    What is suggested depends on the seed of the search, the number of the trial, and the
    trials before it, as far as they are; not on the process that asks.

    Args:
        folder: of the sweep, which this process has claimed.
        search: in its plan.
        trials: all that are planned, in order.
        accept: called with settings, as on the command line.

    Returns:
        Whether any were accepted.
    """
    with _optuna() as optuna:
        study = _Journal(optuna, folder, search).bring_up_to_date(trials)
        seed = keyed_seed(search.seed, Purpose.SEARCH, len(trials)) % 2**32
        sampler = optuna.samplers.TPESampler(
            seed=seed, multivariate=True, constant_liar=True
        )
        # In memory: what is refused, or what a killed process has asked for, is no trial.
        asked = optuna.create_study(direction="maximize", sampler=sampler)
        asked.add_trials(study.get_trials(deepcopy=False))
        distributions = {x.name: _distribution(optuna, x) for x in search.space}
        for _ in range(TRIES):
            suggestion = asked.ask(distributions)
            settings: dict[str, str] = {}
            for dimension in search.space:
                settings |= dimension.settings_of(suggestion.params[dimension.name])
            if accept(settings):
                return True
            asked.tell(suggestion, state=optuna.trial.TrialState.FAIL)
    return False


def is_behind(search: Search, trials: Sequence[Trial], trial: Trial) -> bool:
    """Whether a trial should be ended, compared with those that are complete.

    Its best evaluation so far is compared with the median of theirs in the round of its
    last one.

    Args:
        search: that it belongs to.
        trials: all of them.
        trial: as far as it had been evaluated.
    """
    with _optuna() as optuna:
        study = optuna.create_study(
            direction="maximize", pruner=optuna.pruners.MedianPruner()
        )
        complete = [other for other in trials if other.state == COMPLETE]
        study.add_trials([_frozen(optuna, search, other) for other in complete])
        return bool(study.pruner.prune(study, _frozen(optuna, search, trial)))


class _Journal:
    """The study on disk."""

    def __init__(self, optuna: Any, folder: Path, search: Search) -> None:
        self._optuna, self._search = optuna, search
        self._path = folder / JOURNAL

    def bring_up_to_date(self, trials: Sequence[Trial]) -> Any:
        """Let the journal say what the trials are, and return the study.

        Raises:
            ConfigError: if it cannot be written.
        """
        try:
            return self._bring_up_to_date(trials)
        except OSError as error:
            raise cannot_write(self._path, error) from error

    def _bring_up_to_date(self, trials: Sequence[Trial]) -> Any:
        # Left by a process that was killed: only the holder of the claim writes.
        self._path.with_name(self._path.name + LOCK).unlink(missing_ok=True)
        if self._path.is_symlink():  # which could lead out of the folder
            self._path.unlink()
        if self._path.exists() and not self._path.read_bytes().endswith(b"\n"):
            mend(self._path)
        try:
            if study := self._follow(trials):
                return study
        except (ValueError, LookupError, AssertionError, TypeError):
            pass  # it was damaged
        self._path.unlink(missing_ok=True)
        return self._follow(trials)

    def _follow(self, trials: Sequence[Trial]) -> Any:
        """Add what is new; return the study, or None if it says something else."""
        storages = self._optuna.storages
        path = str(self._path)
        lock = storages.journal.JournalFileOpenLock(path)
        storage = storages.JournalStorage(
            storages.journal.JournalFileBackend(path, lock_obj=lock)
        )
        study = self._optuna.create_study(
            storage=storage, study_name=STUDY, direction="maximize", load_if_exists=True
        )
        recorded = study.get_trials(deepcopy=False)
        if len(recorded) > len(trials):
            return None
        for number, (old, trial) in enumerate(zip_longest(recorded, trials)):
            new = _frozen(self._optuna, self._search, trial)
            if old is None:
                study.add_trial(new)
            elif old.params != new.params:
                return None
            elif old.state == self._optuna.trial.TrialState.RUNNING:
                self._update(storage, study, number, trial)
            elif old.state != new.state:
                return None
        return study

    def _update(self, storage: Any, study: Any, number: int, trial: Trial) -> None:
        """Report what a trial has scored since, and that it is over, if it is."""
        recorded = study.get_trials(deepcopy=False)[number].intermediate_values
        identity = storage.get_trial_id_from_study_id_trial_number(
            storage.get_study_id_from_name(STUDY), number
        )
        for step, value in trial.at_rounds.items():
            if recorded.get(step) != value:
                storage.set_trial_intermediate_value(identity, step, value)
        if trial.state == COMPLETE:
            study.tell(number, trial.value)
        elif trial.state != RUNNING:
            study.tell(number, state=_state(self._optuna, trial))


def _frozen(optuna: Any, search: Search, trial: Trial) -> Any:
    """Return a trial as Optuna describes it."""
    return optuna.trial.create_trial(
        state=_state(optuna, trial),
        value=trial.last_value if trial.state in (COMPLETE, PRUNED) else None,
        params={x.name: x.value_of(trial.settings) for x in search.space},
        distributions={x.name: _distribution(optuna, x) for x in search.space},
        user_attrs={"folder": trial.folder},
        intermediate_values=dict(trial.at_rounds),
    )


def _state(optuna: Any, trial: Trial) -> Any:
    states = optuna.trial.TrialState
    return {
        COMPLETE: states.COMPLETE,
        PRUNED: states.PRUNED,
        FAILED: states.FAIL,
        RUNNING: states.RUNNING,
    }[trial.state]


def _distribution(optuna: Any, dimension: Dimension) -> Any:
    numbers = dimension.range
    if numbers is None:
        return optuna.distributions.CategoricalDistribution(dimension.labels)
    if numbers.is_whole:
        return optuna.distributions.IntDistribution(
            int(numbers.low), int(numbers.high), numbers.is_log, int(numbers.step or 1)
        )
    step = None if numbers.step is None else float(numbers.step)
    return optuna.distributions.FloatDistribution(
        float(numbers.low), float(numbers.high), numbers.is_log, step
    )
