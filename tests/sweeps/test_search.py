"""A search: its trials, what it prunes, and that it goes on after anything."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import optuna
import pytest

import rookery
from rookery.cli import app as cli
from rookery.errors import ConfigError
from rookery.runs.changes import read_history
from rookery.runs.claim import Claim
from rookery.runs.configure import configure
from rookery.runs.log import EVALUATIONS, read_lines, why_inexact
from rookery.stop import StopFlag, Stopped
from rookery.storage.summed_json import write_with_checksum
from rookery.sweeps import estimate, optuna_study
from rookery.sweeps.axes import parse_words, read_plan_file
from rookery.sweeps.cells import (
    DONE,
    FAILED,
    PRUNED,
    WAITING,
    failures,
    forget_failures,
    saved_round,
    state_of,
)
from rookery.sweeps.local import LocalSweep
from rookery.sweeps.optuna_study import JOURNAL, LOCK, STUDY, is_behind
from rookery.sweeps.plan import Plan, read_plan
from rookery.sweeps.planning import groups_of
from rookery.sweeps.pruned import is_pruned, mark_pruned, round_of_pruning
from rookery.sweeps.search import ask, keep_record
from rookery.sweeps.search_plan import SearchQuestion, code_named_in, plan_search
from rookery.sweeps.search_words import parse_search, search_of
from rookery.sweeps.slurm import cells_left
from rookery.sweeps.trials import COMPLETE, RUNNING, Trial, Trials, best_of
from rookery.sweeps.trust import Named
from rookery.sweeps.work import open_cell, work
from tests.scenarios.conftest import is_alive, wait_for
from tests.sweeps.conftest import FIELD, Command, digest_of, rounds_in, words_of
from tests.sweeps.test_local import Quiet
from tests.sweeps.test_plan import OWN_ALGORITHM, PROBE

ROUNDS, EVERY, TRIALS = 6, 2, 13
"""So many trials that the last ones are not drawn at random."""
VARIED = ("game.worth=0.0..4.0", "worlds=1,2")
FIXED = (f"evaluate.every_rounds={EVERY}", f"rounds={ROUNDS}")
SLOW_ROUNDS, SLOW_EVERY = 24, 8
"""Of cells that take some seconds while the game is slow."""
Tell = Callable[..., None]


def asked(*words: str, seeds: Sequence[int] = (0,), **options: Any) -> SearchQuestion:
    """Return a search of small cells."""
    engine = {"engine": "optuna", "trials": TRIALS, **options}
    return parse_search(FIELD, words_of(*(words or (*VARIED, *FIXED))), seeds, engine)


def planned(folder: Path, *words: str, **options: Any) -> Plan:
    question = asked(*words, **options)
    return plan_search(question, folder, code_named_in(question))


def ignore(*what: Any, **details: Any) -> None:
    pass


def worked(plan: Plan, tell: Tell = ignore) -> Plan:
    """Work until nothing is left, in this process; return the plan as it is then."""
    work(plan, StopFlag(), tell)
    return Plan(plan.folder, plan.named)


def trials_of(plan: Plan) -> list[Trial]:
    return Trials(plan.folder).read(read_plan(plan.folder))


def recorded(folder: Path) -> list[optuna.trial.FrozenTrial]:
    """Return the trials that anybody finds with Optuna in the folder of a sweep."""
    journal = optuna.storages.journal
    lock = journal.JournalFileOpenLock(str(folder / JOURNAL))
    backend = journal.JournalFileBackend(str(folder / JOURNAL), lock_obj=lock)
    storage = optuna.storages.JournalStorage(backend)
    return optuna.load_study(study_name=STUDY, storage=storage).trials


def check_record(plan: Plan) -> None:
    """Check that Optuna's journal says what the plan and the cells say."""
    states = {COMPLETE: "COMPLETE", PRUNED: "PRUNED", FAILED: "FAIL", RUNNING: "RUNNING"}
    trials, found = trials_of(plan), recorded(plan.folder)
    assert [trial.user_attrs["folder"] for trial in found] == [x.folder for x in trials]
    for trial, same in zip(trials, found, strict=True):
        assert same.state.name == states[trial.state]
        assert same.intermediate_values == trial.at_rounds
        assert {k: str(v) for k, v in same.params.items()} == trial.settings
        if trial.state == COMPLETE:
            assert same.value == trial.value


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """Return a search that is over, for all tests to look at."""
    return worked(planned(tmp_path_factory.mktemp("done") / "sweep"))


@pytest.fixture
def copy(done: Plan, tmp_path: Path) -> Plan:
    """Return a copy of it, with one more trial to come."""
    shutil.copytree(done.folder, tmp_path / "sweep")
    return planned(tmp_path / "sweep", trials=TRIALS + 1)


@pytest.fixture(scope="module")
def following(done: Plan, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the settings of the trial that follows."""
    folder = tmp_path_factory.mktemp("following") / "sweep"
    shutil.copytree(done.folder, folder)
    return ask(planned(folder, trials=TRIALS + 1), StopFlag()).groups[-1].settings


# Trials


def test_every_trial_is_a_group_like_that_of_any_sweep(
    done: Plan, undisturbed: Callable[..., str]
) -> None:
    assert [group.folder for group in done.groups] == [f"trial-{i}" for i in range(TRIALS)]
    assert len({group.config for group in done.groups}) == TRIALS
    for group in done.groups:
        words = words_of(*FIXED, *(f"{k}={v}" for k, v in group.settings.items()))
        (same,) = groups_of(parse_words(FIELD, words, [0]))
        assert (group.config, group.seal) == (same.config, same.seal)
    for cell in [x for x in done.cells if state_of(done, x) == DONE][:2]:
        worth, worlds = (float(x) for x in cell.group.settings.values())
        settings = {"game.worth": worth, "worlds": int(worlds), "rounds": ROUNDS}
        settings["evaluate.every_rounds"] = EVERY
        assert digest_of(cell.folder) == undisturbed(cell.seed, **settings)


def test_one_worker_tries_the_same_trials_again_and_another_seed_others(
    done: Plan, tmp_path: Path
) -> None:
    again = worked(planned(tmp_path / "again"))
    other = worked(planned(tmp_path / "other", trials=3, seed=1))

    assert again.groups == done.groups
    assert trials_of(again) == trials_of(done)
    settings = [group.settings for group in done.groups]
    assert not [group for group in other.groups if group.settings in settings]


def test_later_trials_are_drawn_from_what_earlier_ones_have_scored(done: Plan) -> None:
    """The score is proportional to `worth`, so it should grow."""
    worth = [float(group.settings["game.worth"]) for group in done.groups]

    assert sum(worth[10:]) / 3 > sum(worth[:10]) / 10


def test_the_record_is_a_study_that_optuna_reads(done: Plan) -> None:
    check_record(done)

    states = [trial.state.name for trial in recorded(done.folder)]
    assert states.count("COMPLETE") >= 5
    assert "PRUNED" in states


def test_a_trial_is_completed_before_another_one_is_asked_for(tmp_path: Path) -> None:
    begun: list[tuple[str, str]] = []

    def tell(kind: str, cell: str, **details: Any) -> None:
        begun.append((kind, cell))

    plan = worked(planned(tmp_path / "sweep", trials=2, seeds=(0, 4)), tell)

    names = [f"trial-{trial}/seed-{seed}" for trial in range(2) for seed in (0, 4)]
    assert begun == [(kind, name) for name in names for kind in ("start", "done")]
    for trial in trials_of(plan):
        files = [plan.folder / trial.folder / f"seed-{i}" / EVALUATIONS for i in (0, 4)]
        lines = [
            [x for x in read_lines(file) if x["players"] == "greedy"] for file in files
        ]
        assert [line["round"] for line in lines[0]] == [2, 4, 6]
        assert trial.value == sum(own[-1]["mean"] for own in lines) / 2


def test_a_combination_is_tried_once_and_one_that_is_impossible_not_at_all(
    tmp_path: Path,
) -> None:
    """A batch cannot be larger than the replay: five of six combinations are left."""
    words = ("batch_size=64,256", "replay.capacity=100,1000,2000", "replay.warmup=50")
    words += ("algorithm=dqn", *FIXED)

    plan = planned(tmp_path / "sweep", *words, trials=6)
    while plan.open_groups:
        plan = ask(plan, StopFlag())

    tried = {tuple(group.settings.values()) for group in plan.groups}
    assert len(plan.groups) == len(tried) == 5
    assert ("256", "100") not in tried
    assert plan.search is not None
    assert plan.search.trials == 5
    check_record(plan)


def test_if_nothing_is_possible_the_search_ends_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(optuna_study, "TRIES", 10)
    words = ("batch_size=300,400", "replay.capacity=100", "discount=0.5..0.9")
    plan = planned(tmp_path / "sweep", *words, "algorithm=dqn", *FIXED)

    with pytest.raises(ConfigError) as error:
        ask(plan, StopFlag())

    assert str(error.value).startswith(
        "no combination that is possible was found in 10 tries, the last one because: "
        f"{FIELD} "
    )
    assert ": agent '0' would never learn: " in str(error.value)
    assert read_plan(plan.folder)["groups"] == []


# Pruning


def test_a_trial_that_is_behind_the_others_is_pruned_and_its_cell_is_saved(
    done: Plan,
) -> None:
    trials = trials_of(done)
    pruned = [trial for trial in trials if trial.state == PRUNED]

    assert pruned
    for trial in pruned:
        (cell,) = [x for x in done.cells if x.group.folder == trial.folder]
        number = round_of_pruning(done.folder, trial.folder)
        assert number is not None
        assert number in (2, 4)
        assert number <= saved_round(cell) == rounds_in(cell.folder) < ROUNDS
        assert state_of(done, cell) == PRUNED
        assert max(trial.at_rounds) == number
        before = trials[: trials.index(trial)]
        others = sorted(x.at_rounds[number] for x in before if x.state == COMPLETE)
        assert len(others) >= 5
        assert max(trial.at_rounds.values()) <= others[len(others) // 2]
    assert failures(done) == {}


def test_what_is_pruned_is_not_trained_again(done: Plan, tmp_path: Path) -> None:
    shutil.copytree(done.folder, tmp_path / "sweep")
    begun: list[Any] = []

    worked(Plan(tmp_path / "sweep", done.named), lambda *what, **x: begun.append(what))

    assert begun == []


def test_all_seeds_of_a_pruned_trial_end(tmp_path: Path) -> None:
    plan = planned(tmp_path / "sweep", trials=1, seeds=(0, 1, 2))
    told: list[Any] = []

    def tell(kind: str, cell: str, **details: Any) -> None:
        told.append((kind, cell))
        if cell == "trial-0/seed-1":  # as somebody does who trains another seed
            mark_pruned(plan.folder, "trial-0", 2, 0.0)

    plan = worked(plan, tell)

    assert [what for what in told if what[1] != "trial-0/seed-0"] == [
        ("start", "trial-0/seed-1"),
        ("pruned", "trial-0/seed-1"),
    ]
    assert [state_of(plan, cell) for cell in plan.cells] == [DONE, PRUNED, PRUNED]
    assert saved_round(plan.cells[1]) == rounds_in(plan.cells[1].folder) == 1
    assert [trial.state for trial in trials_of(plan)] == [PRUNED]
    check_record(plan)


def test_without_pruning_all_trials_are_trained_to_the_end(tmp_path: Path) -> None:
    words = ("game.worth=0.0,1.0,2.0,3.0,4.0,0.1,0.2", *FIXED)

    plan = worked(planned(tmp_path / "sweep", *words, trials=7, pruning=False))

    assert {state_of(plan, cell) for cell in plan.cells} == {DONE}


def test_without_evaluations_the_return_while_training_counts(tmp_path: Path) -> None:
    words = ("game.worth=1.0..2.0", f"rounds={ROUNDS}")

    plan = worked(planned(tmp_path / "sweep", *words, trials=2))

    assert plan.search is not None
    assert (plan.search.metric, plan.search.prunes) == ("return", False)
    rows = rookery.Sweep(plan.folder).table()
    assert rows["value"].tolist() == rows["return"].tolist()
    assert rows["value"].tolist() == sorted(rows["value"], reverse=True)


def test_a_count_of_the_game_can_be_maximised(tmp_path: Path) -> None:
    words = ["algorithm=ppo", "rounds=2", "worlds=2", "workers=0", "game.turns=5"]
    words += ["evaluate.every_rounds=1", "discount=0.0..0.9"]
    options = {"engine": "optuna", "trials": 2, "metric": "stag"}
    question = parse_search("iterated_stag_hunt", words, [0], options)

    plan = worked(plan_search(question, tmp_path / "sweep", code_named_in(question)))

    for trial in trials_of(plan):
        lines = read_lines(plan.folder / trial.folder / "seed-0" / EVALUATIONS)
        means = [x["counts"]["stag"]["mean"] for x in lines if x["players"] == "greedy"]
        assert trial.at_rounds == {1: means[0], 2: means[1]}
        assert trial.value == means[1]


def trial(*scores: float, state: str = COMPLETE) -> Trial:
    """Return a trial with scores in rounds 2, 4, 6, …"""
    settings = {"game.worth": "1.0", "worlds": "1"}
    at_rounds = dict(zip(range(2, 100, 2), scores, strict=False))
    value = scores[-1] if state == COMPLETE else None
    return Trial("trial-0", settings, state, value, at_rounds)


def test_a_trial_is_behind_if_its_best_is_below_the_median_of_those_that_are_complete(
    done: Plan,
) -> None:
    search = done.search
    assert search is not None
    others = [trial(float(x), float(x)) for x in range(1, 6)]
    running = [trial(9.0, 9.0, state=RUNNING)] * 9

    def behind(*scores: float, among: Sequence[Trial] = others) -> bool:
        return is_behind(search, [*among, *running], trial(*scores, state=RUNNING))

    assert behind(2.9)
    assert not behind(3.0)
    assert not behind(4.0, 2.0)  # its best counts
    assert not behind(0.0, among=others[:4])  # the first five are not pruned


def test_evaluations_are_judged_in_the_round_they_belong_to() -> None:
    later = trial(1.0, 2.0, 3.0, state=RUNNING)

    assert later.until(4).at_rounds == {2: 1.0, 4: 2.0}
    assert later.last_value == 3.0


def test_a_kill_between_an_evaluation_and_its_judgement_changes_nothing(
    done: Plan, tmp_path: Path
) -> None:
    """The newest evaluation is judged when the cell goes on."""
    (first, *_) = [x for x in trials_of(done) if x.state == PRUNED]
    shutil.copytree(done.folder, tmp_path / "sweep")
    plan = Plan(tmp_path / "sweep", done.named)
    (plan.folder / "pruned" / f"{first.folder}.json").unlink()
    number = round_of_pruning(done.folder, first.folder)

    plan = worked(plan)

    assert round_of_pruning(plan.folder, first.folder) == number
    assert trials_of(plan) == trials_of(done)


# After anything


def test_a_kill_before_the_last_evaluation_is_logged_changes_nothing(
    done: Plan, tmp_path: Path
) -> None:
    best = best_of(trials_of(done))
    assert best is not None
    shutil.copytree(done.folder, tmp_path / "sweep")
    plan = Plan(tmp_path / "sweep", done.named)
    log = plan.folder / best.folder / "seed-0" / EVALUATIONS
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(x for x in lines if json.loads(x)["round"] < ROUNDS))
    (unfinished,) = [x for x in trials_of(plan) if x.folder == best.folder]
    assert (unfinished.state, unfinished.value) == (RUNNING, None)

    plan = worked(plan)

    assert log.read_text() == "".join(lines)
    assert trials_of(plan) == trials_of(done)


def test_scores_after_the_planned_rounds_do_not_count(copy: Plan) -> None:
    best = best_of(trials_of(copy))
    assert best is not None

    folder = copy.folder / best.folder / "seed-0"
    rookery.resume(folder, game=FIELD, rounds=ROUNDS + EVERY, progress=False)

    assert rounds_in(folder) == ROUNDS + EVERY
    assert best_of(trials_of(copy)) == best


def cut(journal: Path) -> None:
    """Cut off the last line, as a kill in the middle of a write can."""
    journal.write_bytes(journal.read_bytes()[:-20])


def append_half_a_line(journal: Path) -> None:
    journal.write_bytes(journal.read_bytes() + b'{"op_code":4,"work')


def overwrite_with_zeros(journal: Path) -> None:
    """As after a power cut."""
    data = journal.read_bytes()
    journal.write_bytes(data[: len(data) // 2] + bytes(len(data) - len(data) // 2))


def forget_a_half(journal: Path) -> None:
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[: len(lines) // 2]))


def lock(journal: Path) -> None:
    """As a process leaves it that was killed while it wrote."""
    journal.with_name(journal.name + LOCK).touch()


def add_a_stranger(journal: Path) -> None:
    other = journal.read_bytes().splitlines(keepends=True)
    created = next(line for line in other if b'"op_code":4' in line)
    journal.write_bytes(journal.read_bytes() + created)


def replace_by_a_link(journal: Path) -> None:
    """As in a folder from elsewhere, which must not lead out of it."""
    outside = journal.parents[1] / "outside"
    journal.rename(outside)
    journal.symlink_to(outside)


DAMAGE = (
    cut,
    append_half_a_line,
    overwrite_with_zeros,
    forget_a_half,
    lock,
    add_a_stranger,
    replace_by_a_link,
    Path.unlink,
)


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_whatever_becomes_of_the_journal_the_search_goes_on_with_the_same_trial(
    damage: Callable[[Path], None], copy: Plan, following: dict[str, str]
) -> None:
    damage(copy.folder / JOURNAL)
    others = {x: x.read_bytes() for x in copy.folder.parent.iterdir() if x.is_file()}

    plan = ask(copy, StopFlag())

    assert {path: path.read_bytes() for path in others} == others
    assert plan.groups[-1].settings == following
    check_record(plan)


def test_the_journal_of_a_search_that_is_over_is_brought_up_to_date(copy: Plan) -> None:
    forget_a_half(copy.folder / JOURNAL)

    plan = worked(copy)

    check_record(plan)


WATCHED = tuple(
    str(Path(rookery.__file__).parent / name)
    for name in ("sweeps/", "storage/", "runs/claim.py", "runs/folder.py")
)


def lines_until_death(last: int, task: Callable[[], object]) -> int:
    """Do something in a process that is killed after some lines; return how many it ran.

    Lines of Rookery, and of Optuna's journal.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        count = 0

        def step(frame: FrameType, event: str, argument: object) -> Any:
            nonlocal count
            name = frame.f_code.co_filename
            if not (name.startswith(WATCHED) or "optuna/storages/journal" in name):
                return None
            if event == "line":
                count += 1
                if count == last:
                    os.kill(os.getpid(), signal.SIGKILL)
            return step

        sys.settrace(step)
        try:
            task()
        finally:
            sys.settrace(None)
            os.write(writing, str(count).encode())
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as pipe:
        return int(pipe.read() or last)


def test_a_process_that_is_killed_anywhere_while_it_asks_costs_no_trial(
    tmp_path: Path,
) -> None:
    worked(planned(tmp_path / "before", trials=1))
    before = planned(tmp_path / "before", trials=2)
    (tmp_path / "before" / JOURNAL).unlink()  # so that a trial that is over is recorded

    def killed(last: int) -> tuple[int, Plan]:
        """Ask until death; return after how many lines, and the plan as it is then."""
        shutil.rmtree(tmp_path / "sweep", ignore_errors=True)
        shutil.copytree(before.folder, tmp_path / "sweep")
        plan = Plan(tmp_path / "sweep", before.named)
        lines = lines_until_death(last, lambda: ask(plan, StopFlag()))
        return lines, Plan(tmp_path / "sweep", before.named)

    lines, undisturbed = killed(10**9)
    planned_already = set()
    for last in [*range(1, lines, lines // 20), lines]:
        _, plan = killed(last)
        planned_already.add(len(plan.groups))
        if plan.open_groups:
            plan = ask(plan, StopFlag())
        assert plan.groups == undisturbed.groups, last
        keep_record(plan)
        check_record(plan)
    assert planned_already == {1, 2}
    assert lines > 300


def test_a_link_in_place_of_the_marks_is_refused(tmp_path: Path) -> None:
    plan = ask(planned(tmp_path / "sweep"), StopFlag())
    (plan.folder / "pruned").symlink_to(tmp_path)

    with pytest.raises(ConfigError, match="pruned is a link, and a sweep must not contain"):
        open_cell(plan, plan.cells[0], StopFlag())


def test_processes_that_ask_at_the_same_time_add_one_trial(tmp_path: Path) -> None:
    first = second = planned(tmp_path / "sweep", trials=2)

    first = ask(first, StopFlag())
    second = ask(second, StopFlag())

    assert len(first.groups) == len(second.groups) == 1
    assert first.groups == second.groups


def test_a_failed_trial_is_tried_again_and_its_record_is_corrected(
    tmp_path: Path,
) -> None:
    words = ("game.fails=true,false", "discount=0.5..0.9", *FIXED)
    plan = worked(planned(tmp_path / "sweep", *words, trials=4))
    failed = {x.folder for x in trials_of(plan) if x.settings["game.fails"] == "true"}
    assert failed
    assert set(failures(plan)) == {f"{folder}/seed-0" for folder in failed}
    check_record(plan)

    forget_failures(plan)
    keep_record(plan)

    assert {x.folder for x in trials_of(plan) if x.state == RUNNING} == failed
    check_record(plan)


@pytest.fixture
def another(command: Command) -> Iterator[Command]:
    another = Command(command.folder)
    yield another
    another.close()


def start(command: Command, *words: str, trials: int = 3, **changes: Any) -> None:
    """Start a search whose cells take some seconds."""
    command.slow.touch()
    words = (*VARIED, f"evaluate.every_rounds={SLOW_EVERY}", *words)
    arguments = words_of(*words, rounds=SLOW_ROUNDS, **changes)
    search = ["--search", "optuna", "--trials", str(trials), "--run", str(command.sweep)]
    command.start(FIELD, *arguments, *search)


def saved_cells(command: Command) -> list[Path]:
    """Return the cells that have a checkpoint."""
    return sorted({path.parent.parent for path in command.sweep.glob("trial-*/*/*/ckpt-*")})


def check_cells(plan: Plan, undisturbed: Callable[..., str]) -> None:
    """Check that all cells are over, with the digests of undisturbed ones."""
    assert {state_of(plan, cell) for cell in plan.cells} <= {DONE, PRUNED}
    for cell in plan.cells:
        if state_of(plan, cell) == DONE:
            worth, worlds = (float(x) for x in cell.group.settings.values())
            settings = {"game.worth": worth, "worlds": int(worlds)}
            settings |= {"rounds": SLOW_ROUNDS, "evaluate.every_rounds": SLOW_EVERY}
            assert digest_of(cell.folder) == undisturbed(cell.seed, **settings)
            assert rounds_in(cell.folder) == SLOW_ROUNDS


@pytest.mark.processes
@pytest.mark.shows("E9")
def test_a_search_whose_processes_are_killed_goes_on_with_the_same_trials(
    command: Command, undisturbed: Callable[..., str]
) -> None:
    start(command, "seeds=0..1")
    command.wait_for(lambda: saved_cells(command))
    worker = json.loads(next(saved_cells(command)[0].glob("claim-*")).read_text())["pid"]
    os.kill(worker, signal.SIGKILL)
    command.wait_for(lambda: "its process was killed by SIGKILL; it is" in command.said)
    command.wait_for(lambda: len(saved_cells(command)) >= 3)
    before = Plan(command.sweep, Named([FIELD])).groups
    workers = command.workers()
    command.signal(signal.SIGKILL)
    command.code()
    wait_for(lambda: not any(map(is_alive, workers)))

    command.slow.unlink()
    command.go(command="work")

    assert command.code() == 0, command.said
    plan = Plan(command.sweep, Named([FIELD]))
    assert plan.groups[: len(before)] == before
    assert len({group.config for group in plan.groups}) == len(plan.groups) == 3
    assert not plan.open_groups
    check_cells(plan, undisturbed)
    check_record(plan)


@pytest.mark.processes
def test_a_search_by_several_commands_tries_every_trial_once(
    command: Command, another: Command, undisturbed: Callable[..., str]
) -> None:
    start(command, trials=5)
    command.wait_for(lambda: saved_cells(command))

    another.go("--json", command="work")
    wait_for(lambda: another.events or another._process.poll() is not None)
    command.slow.unlink()

    assert (command.code(), another.code()) == (0, 0), command.said + another.said
    plan = Plan(command.sweep, Named([FIELD]))
    assert len({group.config for group in plan.groups}) == len(plan.groups) == 5
    check_cells(plan, undisturbed)
    check_record(plan)
    for cell in plan.cells:  # each was trained once, from its first round
        events = (cell.folder / "events.jsonl").read_text()
        assert events.count('"event": "start"') == 1
    best = best_of(trials_of(plan))
    assert best is not None
    assert f"best: {best.folder}, trained {best.value:.4g}: game.worth=" in command.printed


def is_stopped_at_the_second_cell(plan: Plan) -> bool:
    """Work until a second cell begins; return whether there was one."""
    stop, told = StopFlag(), list[str]()

    def tell(kind: str, cell: str, **details: Any) -> None:
        told.append(kind)
        if told.count("start") == 2:
            stop.signal = signal.SIGTERM

    try:
        work(plan, stop, tell)
    except Stopped:
        return True
    return False


def test_a_search_that_is_stopped_again_and_again_tries_the_same_trials(
    done: Plan, tmp_path: Path
) -> None:
    plan, stops = planned(tmp_path / "sweep", trials=3), 0

    while is_stopped_at_the_second_cell(plan):
        stops += 1
        plan = Plan(plan.folder, plan.named)
        for cell in plan.cells:
            assert saved_round(cell) == rounds_in(cell.folder)

    assert stops == 2
    plan = Plan(plan.folder, plan.named)
    assert trials_of(plan) == trials_of(done)[:3]
    check_record(plan)


@pytest.mark.processes
def test_a_search_ends_if_fewer_combinations_are_possible_than_there_are_trials(
    tmp_path: Path,
) -> None:
    words = ("batch_size=64,256", "replay.capacity=100", "replay.warmup=50")
    plan = planned(tmp_path / "sweep", *words, "algorithm=dqn", *FIXED, trials=2)

    outcome = LocalSweep(plan, StopFlag(), Quiet(), ignore, ignore).run()

    assert list(outcome.summaries) == ["trial-0/seed-0"]
    plan = Plan(plan.folder, plan.named)
    assert (len(plan.groups), plan.open_groups) == (1, [])


# Commands


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs a command in this process."""
    monkeypatch.chdir(tmp_path)

    def run_command(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as leaving:
            cli.main(["sweep", *arguments])
        printed = capsys.readouterr()
        return int(leaving.value.code or 0), printed.out, printed.err

    return run_command


Run = Callable[..., tuple[int, str, str]]


def test_the_status_counts_trials_names_pruned_ones_and_the_best(
    done: Plan, run: Run
) -> None:
    _, printed, _ = run("status", str(done.folder), "--game", FIELD)

    trials = trials_of(done)
    pruned = [trial.folder for trial in trials if trial.state == PRUNED]
    best = best_of(trials)
    assert best is not None
    complete, ended = TRIALS - len(pruned), len(pruned)
    rounds = {name: round_of_pruning(done.folder, name) for name in pruned}
    settings = " ".join(f"{key}={value}" for key, value in best.settings.items())
    config = done.folder / best.folder / "seed-0" / "config.toml"
    assert printed.splitlines() == [
        f"{done.folder}: {TRIALS} cells: {complete} done, {ended} pruned",
        f"{TRIALS} trials: {complete} done, {ended} pruned",
        "pruned: " + ", ".join(f"{x} (round {number})" for x, number in rounds.items()),
        f"best: {best.folder}, trained {best.value:.4g}: {settings}; with new seeds: "
        f"rookery train {FIELD} seeds=1..10 --config {config}",
    ]
    status = json.loads(run("status", str(done.folder), "--game", FIELD, "--json")[1])
    assert (status["pruned"], status["left"]) == (ended, 0)
    assert status["search"]["pruned"] == rounds
    assert status["search"]["best"]["settings"] == best.settings


def test_the_command_that_is_named_trains_the_best_settings(done: Plan, run: Run) -> None:
    _, printed, _ = run("status", str(done.folder), "--game", FIELD)

    words = shlex.split(printed.rpartition("with new seeds: ")[2])
    assert words[:3] == ["rookery", "train", FIELD]
    _, config = configure(FIELD, config_file=Path(words[-1]))
    best = best_of(trials_of(done))
    assert best is not None
    (group,) = [group for group in done.groups if group.folder == best.folder]
    assert rookery.Sweep(done.folder).best()["worlds"] == config.worlds
    assert config.worlds == group.tree["worlds"]
    assert config.game.settings.model_dump()["worth"] == float(best.settings["game.worth"])


def test_the_table_has_the_best_trial_first_and_pruned_ones_last(
    done: Plan, run: Run
) -> None:
    rows = rookery.Sweep(done.folder).table()

    trials = {trial.folder: trial for trial in trials_of(done)}
    best = best_of(list(trials.values()))
    assert best is not None
    assert rows["trial"][0] == best.folder
    assert rows["state"].tolist() == [trials[name].state for name in rows["trial"]]
    complete = rows[rows["state"] == COMPLETE]
    assert rows["state"][: len(complete)].eq(COMPLETE).all()
    assert complete["value"].tolist() == sorted(complete["value"], reverse=True)
    assert complete["value"].tolist() == complete["trained"].tolist()

    _, printed, _ = run("table", str(done.folder))
    first, *_, last = [x for x in printed.splitlines() if x.startswith("trial-")]
    assert first.startswith(f"{best.folder}, {best.settings['game.worth']}, ")
    assert " done " in first
    assert " pruned " in last
    assert "value: mean of trained over seeds, in the last evaluation" in printed
    assert "of 13 cells" not in printed  # none is missing


def test_complete_trials_are_verified_and_exported(
    done: Plan, run: Run, tmp_path: Path
) -> None:
    code, _, said = run("verify", str(done.folder), "--game", FIELD, "--cells", "1")
    assert code == 0
    assert "the same bits" in said

    code, _, said = run("export", str(done.folder), "scores.json")
    exported = json.loads(Path("scores.json").read_text())
    complete = [trial for trial in trials_of(done) if trial.state == COMPLETE]
    assert code == 0
    assert len(exported["scores"]) == len(complete)


def test_a_search_that_has_not_begun_can_be_looked_at(tmp_path: Path, run: Run) -> None:
    plan = planned(tmp_path / "sweep", trials=2)

    code, printed, _ = run("status", "sweep", "--game", FIELD)
    assert code == 0
    assert printed.splitlines() == ["sweep: 2 cells: 2 waiting", "2 trials: 2 to come"]
    code, printed, _ = run("table", "sweep")
    assert code == 0
    assert "0 of 2 trials have begun" in printed
    assert cells_left(plan) == 2
    assert {state_of(plan, cell) for cell in plan.cells} == {WAITING}
    with pytest.raises(ConfigError, match=r"no trial of .* is complete yet: let it train"):
        rookery.Sweep(plan.folder).best()


def test_a_dry_run_counts_all_trials_and_writes_nothing(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimate, "SECONDS", 0.2)
    words = [FIELD, *words_of(*VARIED), "seeds=0..4", "--search", "optuna"]

    code, printed, _ = run(*words, "--trials", "8", "--dry-run")

    assert code == 0
    assert printed.startswith("40 cells (8 × 5 seeds), 12 rounds each\n")
    assert list(tmp_path.iterdir()) == []


RATE = "learning_rate=1e-5..1e-2..log"
ERRORS = {
    "no search": (["tag", RATE, "--trials", "3"], "--trials needs --search optuna."),
    "no trials": (
        ["tag", RATE, "--search", "optuna"],
        "a search needs the number of combinations to try: add --trials 40 (in Python "
        "trials=40).",
    ),
    "ray": (
        ["tag", RATE, "--search", "optuna", "--trials", "3", "--on", "ray"],
        "a search cannot be trained --on ray, because its processes share a study in the "
        "sweep's folder, and nodes share no folder: use --on local or --on slurm.",
    ),
    "file": (
        ["--plan", "plan.toml", "--search", "optuna"],
        "--search and --plan were given: put everything into the file, the search into its "
        "table [search].",
    ),
}


@pytest.mark.parametrize(("arguments", "expected"), ERRORS.values(), ids=ERRORS.keys())
def test_an_error_of_the_user_is_one_line_and_exit_code_2(
    arguments: list[str], expected: str, run: Run, tmp_path: Path
) -> None:
    code, printed, said = run(*arguments)

    assert (code, printed, said) == (2, "", f"error: {expected}\n")
    assert list(tmp_path.iterdir()) == []


def test_a_search_is_not_continued_where_there_is_no_common_folder(
    tmp_path: Path, run: Run
) -> None:
    planned(tmp_path / "sweep")

    code, _, said = run("go", "sweep", "--game", FIELD, "--on", "ray")

    assert code == 2
    assert "a search cannot be trained --on ray" in said


def test_without_optuna_a_search_ends_with_how_to_install_it(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned(tmp_path / "sweep", trials=2)
    monkeypatch.setitem(sys.modules, "optuna", None)

    for command in ("go", "work"):
        code, _, said = run(command, "sweep", "--game", FIELD)
        assert code == 2
        needed = "--search optuna needs Optuna: pip install 'rookery[optuna]'"
        assert said == f"error: {needed}\n"
    assert run("status", "sweep", "--game", FIELD)[0] == 0


def test_the_same_search_can_have_more_trials_later_but_not_fewer(tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    before = ask(planned(folder, trials=2), StopFlag())

    more = planned(folder, trials=5)

    assert (len(more.groups), len(more.open_groups)) == (1, 4)
    assert more.groups == before.groups
    with pytest.raises(ConfigError, match="has 5 trials already: give at least 5"):
        planned(folder, trials=3)
    with pytest.raises(ConfigError, match="holds another sweep"):
        planned(folder, trials=5, seed=1)
    with pytest.raises(ConfigError, match="holds another sweep"):
        planned(folder, trials=5, seeds=(0, 1))


def test_settings_of_a_search_are_not_changed_but_it_can_be_resumed(
    tmp_path: Path,
) -> None:
    plan = planned(tmp_path / "sweep", trials=2)

    with pytest.raises(ConfigError, match="is a search, whose trials are compared as they"):
        rookery.resume(plan.folder, game=FIELD, rounds=30, progress=False)
    with pytest.raises(ConfigError, match="resume it without a callback"):
        rookery.resume(plan.folder, game=FIELD, callback=lambda progress: None)
    assert read_plan(plan.folder)["changes"] == []


@pytest.mark.processes
def test_from_python_a_search_is_trained_and_the_best_is_returned(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        key: value
        for key, _, text in (word.partition("=") for word in words_of(*FIXED))
        for value in [json.loads(text) if text[0].isdigit() else text]
        if key != "worlds"
    }
    vary: Any = {"game.worth": "0.0..4.0", "worlds": [1, 2]}

    sweep = rookery.sweep(
        FIELD,
        vary=vary,
        search="optuna",
        trials=3,
        run=tmp_path / "sweep",
        progress=False,
        **settings,
    )

    rows = sweep.table()
    assert len(rows) == 3
    assert sweep.best() == {key: rows[key][0] for key in ("game.worth", "worlds")}


# Code


def test_code_among_the_choices_must_be_named_before_any_trial_uses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(OWN_ALGORITHM)
    Path("look.py").write_text(PROBE)
    words = ["algorithm=dqn,./mine.py:Mine", "discount=0.5..0.9", "game.turns=5"]
    words += ["probe.code=./look.py:probe", "probe.every_rounds=2"]
    options = {"engine": "optuna", "trials": 2}
    question = parse_search("iterated_chicken", words, [0], options)
    named = code_named_in(question)
    assert named == Named([], ["./mine.py:Mine"], ["./look.py:probe"])

    plan = plan_search(question, Path("sweep"), named)

    assert not plan.groups
    with pytest.raises(ConfigError, match=r"add: --algorithm \./mine\.py:Mine$"):
        Plan(Path("sweep"), Named(probes=["./look.py:probe"]))
    with pytest.raises(ConfigError, match=r"add: --probe \./look\.py:probe$"):
        Plan(Path("sweep"), Named(algorithms=["./mine.py:Mine"]))
    assert Plan(Path("sweep"), named).open_groups


def test_code_that_only_a_file_names_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("evil.py").write_text("open('was-run', 'w')")
    Path("plan.toml").write_text(
        "games = 'iterated_chicken'\n[search]\ntrials = 3\n"
        "[[axes]]\ndiscount = '0.5..0.9'\n[[axes]]\nalgorithm = ['dqn', './evil.py:Evil']"
    )
    question = search_of(read_plan_file(Path("plan.toml")))

    with pytest.raises(ConfigError, match=r"add: --algorithm \./evil\.py:Evil$"):
        plan_search(question, Path("sweep"), Named(), Path("plan.toml"))

    assert not Path("was-run").exists()
    assert not Path("sweep").exists()


def test_a_file_that_has_changed_since_makes_later_trials_inexact(tmp_path: Path) -> None:
    game = tmp_path / "field.py"
    shutil.copyfile(FIELD.partition(":")[0], game)
    words = words_of(*VARIED, *FIXED)
    options = {"engine": "optuna", "trials": 2}
    question = parse_search(f"{game}:Field", words, [0], options)
    plan = plan_search(question, tmp_path / "sweep", code_named_in(question))

    game.write_text(f"{game.read_text()}\n# other\n")
    plan = worked(Plan(plan.folder, plan.named))

    for cell in plan.cells:
        assert "is not the file that the run started with" in why_inexact(cell.folder)
        assert read_history(cell.folder).planned == 0


def test_a_plan_whose_search_was_edited_is_refused(tmp_path: Path) -> None:
    plan = planned(tmp_path / "sweep", trials=2)
    content = read_plan(plan.folder)
    for broken in ({"trials": -1}, {"space": []}, {"base": {}}, {"space": [{"keys": 3}]}):
        search = {**content["search"], **broken}
        write_with_checksum(plan.folder / "sweep.json", {**content, "search": search})

        with pytest.raises(ConfigError, match="is not what was written when the sweep was"):
            Plan(plan.folder, plan.named)


def test_a_process_waits_for_another_one_that_changes_the_plan(tmp_path: Path) -> None:
    plan, stop = planned(tmp_path / "sweep"), StopFlag()
    claim = Claim(plan.folder)
    stop.signal = signal.SIGTERM

    with pytest.raises(Stopped):
        ask(plan, stop)
    claim.close()

    assert len(ask(plan, stop).groups) == 1
    assert not is_pruned(plan.folder, "trial-0")
