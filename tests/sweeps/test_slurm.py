"""Submitting a sweep to Slurm: options, arrays, errors, and what the script does.

Slurm's programs are replaced by small scripts that write down how they were called;
tests/experiments/test_slurm.py uses the real ones.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from rookery.cli.app import main
from rookery.errors import ConfigError
from rookery.runs.session import Session
from rookery.stop import UNFINISHED
from rookery.sweeps.axes import Question
from rookery.sweeps.cells import failures, record_failure
from rookery.sweeps.plan import Plan
from rookery.sweeps.planning import new_plan
from rookery.sweeps.saving import longest_save, saving_seconds
from rookery.sweeps.slurm import (
    Option,
    Refused,
    arrays,
    parse_option,
    processes_per_cell,
    submit,
)
from rookery.sweeps.slurm_script import script_text
from rookery.sweeps.trust import Named
from tests.scenarios.conftest import wait_for
from tests.small import GAME, SETTINGS

SMALLEST = tuple(f"{key}={value}" for key, value in SETTINGS.items() if key != "agents")
CONFIG = "MaxArraySize            = 1001\nSchedulerParameters     = (null)\n"
CALLS = "calls"
ACCEPT = "echo 123;cluster"


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return make_plan(tmp_path / "runs" / "sweep", seeds=10)


def make_plan(folder: Path, seeds: int = 2, *more: str) -> Plan:
    question = Question((GAME,), (), tuple(range(seeds)), (*SMALLEST, *more))
    return new_plan(question, folder, Named())


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Return a function that makes a program of Slurm, which first writes its call down."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    monkeypatch.chdir(tmp_path)

    def make(name: str, does: str) -> None:
        calls = shlex.quote(str(tmp_path / CALLS))
        line = f"printf '%s\\n' \"$(printf '%s\\t' {name} \"$@\")\" >> {calls}"
        (folder / name).write_text(f"#!/bin/bash\n{line}\n{does}\n")
        (folder / name).chmod(0o755)

    make("scontrol", f"echo {shlex.quote(CONFIG)}")
    make("sbatch", "echo '123;cluster'")
    return make


def calls(folder: Path, program: str) -> list[list[str]]:
    lines = (folder / CALLS).read_text().splitlines()
    words = [line.rstrip("\t").split("\t") for line in lines]
    return [call[1:] for call in words if call[0] == program]


# Options.


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("account=abc", "--account=abc"),
        ("--qos=low", "--qos=low"),
        ("exclusive", "--exclusive"),
        ("export=A=1,B=2", "--export=A=1,B=2"),
        ("comment=two words", "--comment=two words"),
        ("array=%20", "--array=%20"),
        ("array=0-9:2,12%3", "--array=0-9:2,12%3"),
    ],
)
def test_options_of_sbatch_are_passed_on_as_they_are(word: str, written: str) -> None:
    assert str(parse_option(word)) == written


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("-A abc", "is not an option of sbatch: write its long name"),
        ("A=abc", "is not an option of sbatch"),
        ("", "is not an option of sbatch"),
        ("no-requeue", "cannot be given: a task whose time is over is put back"),
        ("wait", "cannot be given: the command returns at once"),
        ("--chdir=/", "cannot be given"),
        ("array", "is not an array: write array=%20"),
        ("array=%0", "is not an array"),
        ("array=all", "is not an array"),
    ],
)
def test_an_option_that_cannot_be_passed_on_is_one_line(word: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_option(word)


# Arrays.


@pytest.mark.parametrize(
    ("cells", "wanted", "largest", "expected"),
    [
        (1, None, 1001, ["0-0"]),
        (60, None, 1001, ["0-59"]),
        (1001, None, 1001, ["0-1000"]),
        (1002, None, 1001, ["0-1000", "0-0"]),
        (10, None, 4, ["0-3", "0-3", "0-1"]),
        (60, "%20", 1001, ["0-59%20"]),
        (5000, "%20", 1001, ["0-1000%20"]),
        (60, "0-9%2", 1001, ["0-9%2"]),
    ],
)
def test_there_is_a_task_for_every_cell_that_is_left_in_arrays_that_are_not_too_large(
    cells: int, wanted: str | None, largest: int, expected: list[str]
) -> None:
    assert arrays(cells, wanted, largest) == expected


def test_cells_beyond_the_largest_array_are_in_arrays_with_the_same_script(
    plan: Plan, fake: Callable[[str, str], None], tmp_path: Path
) -> None:
    config = CONFIG.replace("1001", "5").replace(
        "(null)", "bf_interval=9,max_array_tasks=4"
    )
    fake("scontrol", f"echo {shlex.quote(config)}")

    submission = submit(plan, [])

    assert [job.array for job in submission.jobs] == ["0-3", "0-3", "0-1"]
    submitted = calls(tmp_path, "sbatch")
    assert [call[-2:] for call in submitted] == [
        [f"--array={job.array}", str(submission.script)] for job in submission.jobs
    ]
    assert len({tuple(call[:-2]) for call in submitted}) == 1


def test_cells_that_are_being_trained_or_done_get_no_task(
    plan: Plan, fake: Callable[[str, str], None]
) -> None:
    cell = plan.cells[0]
    cell.folder.mkdir()
    session = Session(cell.entry, cell.config, cell.folder)
    try:
        submission = submit(plan, [])
    finally:
        session.run(lambda _: None)
    again = submit(plan, [])

    assert [job.array for job in submission.jobs] == ["0-8"]
    assert [job.array for job in again.jobs] == ["0-8"]


def test_failed_cells_are_tried_again(plan: Plan, fake: Callable[[str, str], None]) -> None:
    record_failure(plan, plan.cells[3], "it broke")

    submission = submit(plan, [])

    assert submission.cells == 10
    assert failures(plan) == {}


# What is submitted.


def test_a_job_saves_in_time_is_put_back_and_has_the_options_of_the_user(
    plan: Plan, fake: Callable[[str, str], None], tmp_path: Path
) -> None:
    submission = submit(plan, [parse_option("account=abc"), parse_option("array=%3")])

    (job,) = submission.jobs
    assert (job.id, job.array, submission.cells) == ("123", "0-9%3", 10)
    (words,) = calls(tmp_path, "sbatch")
    assert words == [
        "--parsable",
        "--job-name=sweep",
        "--cpus-per-task=1",
        f"--output={plan.folder}/slurm/%A_%a.log",
        "--signal=B:USR1@36",  # 5 seconds, 20 per GiB, and a margin
        "--account=abc",
        "--requeue",
        "--open-mode=append",
        f"--chdir={tmp_path}",
        "--array=0-9%3",
        str(plan.folder / "slurm" / "task.sh"),
    ]


def test_options_of_the_user_replace_those_that_are_chosen_otherwise(
    plan: Plan, fake: Callable[[str, str], None], tmp_path: Path
) -> None:
    submit(plan, [Option("signal", "B:USR1@600"), Option("cpus-per-task", "8")])

    (words,) = calls(tmp_path, "sbatch")
    assert [x for x in words if x.startswith(("--signal", "--cpus"))] == [
        "--signal=B:USR1@600",
        "--cpus-per-task=8",
    ]


def test_a_task_has_a_processor_for_every_process_of_a_cell(tmp_path: Path) -> None:
    question = (GAME,), (), (0,), SMALLEST
    wide = new_plan(
        Question(question[0], (), (0,), (*SMALLEST, "workers=1", "actors=2")),
        tmp_path / "wide",
        Named(),
    )

    assert processes_per_cell(wide) == 3


def test_what_slurm_says_besides_is_shown(
    plan: Plan, fake: Callable[[str, str], None]
) -> None:
    fake("sbatch", "echo 'sbatch: your group has used 90% of its hours' >&2; echo 123")

    assert submit(plan, []).notes == ("your group has used 90% of its hours",)


# Errors.


def test_a_machine_without_slurm_is_one_line_and_no_folder_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    code = run("sweep", GAME, *SMALLEST, "--run", str(tmp_path / "new"), "--on", "slurm")

    assert code == 2
    assert capfd.readouterr().err == (
        "error: Slurm's scontrol cannot be run here (No such file or directory): submit "
        "from a machine of the cluster, or train on this one with --on local.\n"
    )
    assert not (tmp_path / "new").exists()


def test_a_refused_job_is_one_line_in_slurms_words_and_can_be_submitted_again(
    tmp_path: Path, fake: Callable[[str, str], None], capfd: pytest.CaptureFixture[str]
) -> None:
    words = ("invalid partition specified: nope", "Batch job submission failed: Invalid")
    fake("sbatch", "".join(f"echo 'sbatch: error: {x}' >&2;" for x in words) + "exit 1")
    options = ("--on", "slurm", "--slurm", "partition=nope")

    code = run("sweep", GAME, *SMALLEST, "--run", "new", *options)

    assert code == 2
    (line,) = capfd.readouterr().err.splitlines()[1:]  # the first says what is planned
    assert line.startswith(f"error: sbatch failed: {'; '.join(words)}; then: rookery sweep")
    assert line.endswith("--on slurm --slurm partition=nope")
    fake("sbatch", "echo 7")
    assert run("sweep", "go", "new", "--on", "slurm", "--slurm", "partition=good") == 0
    assert "submitted job 7 (tasks 0-0) for 1 cell." in capfd.readouterr().out


def test_if_only_some_arrays_are_accepted_their_tasks_train_all_cells(
    plan: Plan, fake: Callable[[str, str], None], tmp_path: Path
) -> None:
    fake("scontrol", f"echo {shlex.quote(CONFIG.replace('1001', '4'))}")
    once = tmp_path / "once"
    fake(
        "sbatch",
        f"[ -e {once} ] && {{ echo 'sbatch: error: limit' >&2; exit 1; }}\n"
        f"touch {once}; echo 5",
    )

    submission = submit(plan, [])

    assert [job.id for job in submission.jobs] == ["5"]
    assert submission.notes == (
        "2 of 3 job arrays were not submitted (sbatch failed: limit): the tasks of the "
        "others train their cells.",
    )


@pytest.mark.parametrize(
    ("does", "error", "message"),
    [
        ("echo", ConfigError, "does not say how large job arrays may be"),
        ("echo 'MaxArraySize = 0'", ConfigError, "this cluster has no job arrays"),
        (
            "echo 'slurm_load_ctl_conf error: Unable to contact slurm' >&2; exit 1",
            Refused,
            "scontrol failed: slurm_load_ctl_conf error: Unable to contact slurm",
        ),
    ],
    ids=["silent", "none", "down"],
)
def test_a_cluster_without_arrays_is_one_line(
    plan: Plan,
    fake: Callable[[str, str], None],
    does: str,
    error: type[Exception],
    message: str,
) -> None:
    fake("scontrol", does)

    with pytest.raises(error, match=message):
        submit(plan, [])


def test_an_answer_without_a_job_is_an_error(
    plan: Plan, fake: Callable[[str, str], None]
) -> None:
    fake("sbatch", "echo welcome")

    with pytest.raises(Refused, match="sbatch printed no job id but 'welcome'"):
        submit(plan, [])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--on", "cloud"), "--on 'cloud' is not known: choose "),
        (("--slurm", "time=5"), "--slurm 'time=5' needs --on slurm."),
        (("--on", "slurm", "--until", "2h"), "--until does not go with --on slurm"),
        (("--on", "slurm", "--slurm", "-A x"), "is not an option of sbatch"),
    ],
)
def test_options_that_do_not_fit_are_one_line(
    options: Sequence[str],
    message: str,
    fake: Callable[[str, str], None],
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert run("sweep", GAME, *SMALLEST, "--run", "new", *options) == 2

    assert message in capfd.readouterr().err
    assert not Path("new").exists()


def run(*arguments: str) -> int:
    """Run a command in this process and return its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


# What the command prints.


def test_json_has_the_jobs(
    fake: Callable[[str, str], None], capfd: pytest.CaptureFixture[str]
) -> None:
    run("sweep", GAME, *SMALLEST, "seeds=0..2", "--run", "new", "--on", "slurm", "--json")

    printed = json.loads(capfd.readouterr().out)
    assert printed["jobs"] == [{"id": "123", "array": "0-2"}]
    assert (printed["sweep"], printed["cells"]) == ("new", 3)


def test_one_line_says_what_was_submitted_and_how_to_look(
    fake: Callable[[str, str], None], capfd: pytest.CaptureFixture[str]
) -> None:
    run("sweep", GAME, *SMALLEST, "seeds=0..2", "--run", "new", "--on", "slurm")

    assert capfd.readouterr().out == (
        "new: submitted job 123 (tasks 0-2) for 3 cells. Look with: rookery sweep status "
        "new, squeue --job=123\n"
    )


def test_a_finished_sweep_is_not_submitted(
    plan: Plan, fake: Callable[[str, str], None], capfd: pytest.CaptureFixture[str]
) -> None:
    for cell in plan.cells:
        cell.folder.mkdir()
        Session(cell.entry, cell.config, cell.folder).run(lambda _: None)

    assert run("sweep", "go", str(plan.folder), "--on", "slurm") == 0

    assert "no cell is left that nobody trains" in capfd.readouterr().out
    assert calls(plan.folder.parent.parent, "scontrol")


# The time that saving takes.


def test_the_time_for_saving_grows_with_the_replay(tmp_path: Path) -> None:
    dqn = ("algorithm=dqn", "replay.warmup=4")
    small = make_plan(tmp_path / "small", 1, *dqn, "replay.capacity=100")
    large = make_plan(tmp_path / "large", 1, *dqn, "replay.capacity=100000000")

    assert saving_seconds(small) < 6 < 20 < saving_seconds(large)


def test_the_time_for_saving_is_measured_where_cells_have_begun(plan: Plan) -> None:
    before = saving_seconds(plan)
    cell = plan.cells[0]
    cell.folder.mkdir()
    Session(cell.entry, cell.config, cell.folder).run(lambda _: None)
    assert 0 < longest_save(plan.cells) < 5
    with (cell.folder / "events.jsonl").open("a") as events:
        print(json.dumps({"event": "checkpoint", "seconds": 50.0}), file=events)

    assert before < 10
    assert saving_seconds(plan) == 105


# The script.

TRAIN = """
import os, pathlib, signal, sys, time
folder, ending = pathlib.Path(sys.argv[1]), int(sys.argv[2])
def save(number, frame):
    if ending == 75 and "empty" not in sys.argv:
        (folder / "seed-0" / "checkpoints" / "ckpt-1").mkdir(parents=True)
    (folder / "signals").write_text(signal.Signals(number).name)
    sys.exit(ending)
for each in (signal.SIGUSR1, signal.SIGTERM):
    signal.signal(each, save)
(folder / "ready").touch()
time.sleep(60 if "wait" in sys.argv else 0)
sys.exit(ending)
"""


class Task:
    """The script, with something in place of the training."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.process = folder, None
        self.folder.mkdir(parents=True)
        (self.folder / "sweep.json").touch()
        (self.folder / "slurm").mkdir()

    def start(self, ending: int, *more: str) -> subprocess.Popen[str]:
        script = self.folder / "slurm" / "task.sh"
        train = [sys.executable, "-S", "-c", TRAIN, str(self.folder), str(ending), *more]
        submission = ["sbatch", "--comment=a\nb", str(script)]
        again = f"rookery sweep go '{self.folder}' --on slurm"
        text = script_text(
            self.folder,
            train,
            submission,
            again,
            {"PYTHONPATH": "a'b"},
            Path(),
            "sweep.json",
        )
        script.write_text(text)
        subprocess.run(["bash", "-n", str(script)], check=True)
        job = {"SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "8", "SLURM_ARRAY_TASK_ID": "2"}
        return subprocess.Popen(
            ["bash", str(script)],
            env={**os.environ, "signal": "x", "training": "1", **job},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def signalled(self, ending: int, number: int, *more: str) -> tuple[int, str]:
        """Start it, send a signal as soon as it trains, and return how it ended."""
        process = self.start(ending, "wait", *more)
        try:
            wait_for((self.folder / "ready").exists, 20)
            process.send_signal(number)  # to the shell only, as Slurm does
            said, _ = process.communicate(timeout=20)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return process.returncode, said


@pytest.fixture(params=["plain", 'odd \' "$HOME" `a` %A #b \n c'], ids=["plain", "odd"])
def task(
    tmp_path: Path, request: pytest.FixtureRequest, fake: Callable[[str, str], None]
) -> Task:
    fake("squeue", "echo RUNNING")
    return Task(tmp_path / "runs" / request.param)


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
def test_a_task_that_has_saved_is_put_back_into_the_queue(
    task: Task, tmp_path: Path, number: signal.Signals
) -> None:
    code, said = task.signalled(UNFINISHED, number)

    assert (task.folder / "signals").read_text() == number.name
    assert calls(tmp_path, "squeue") == [["--noheader", "--jobs=8_2", "--format=%T"]]
    assert calls(tmp_path, "scontrol") == [["requeue", "Incomplete", "8_2"]]
    assert (code, said.count("back in the queue")) == (0, 1)


def test_a_task_that_is_cancelled_is_not_put_back(
    task: Task, tmp_path: Path, fake: Callable[[str, str], None]
) -> None:
    fake("squeue", "echo COMPLETING")

    code, said = task.signalled(UNFINISHED, signal.SIGTERM)

    assert code == UNFINISHED
    assert "Slurm is ending this task: it was cancelled" in said
    assert calls(tmp_path, "scontrol") == []


def test_a_task_whose_time_is_too_short_for_a_round_is_not_put_back(
    task: Task, tmp_path: Path
) -> None:
    code, said = task.signalled(UNFINISHED, signal.SIGUSR1, "empty")

    assert code == UNFINISHED
    assert "no round was finished within the time of this task" in said
    assert f"rookery sweep go '{task.folder}' --on slurm --slurm time=…" in said
    assert calls(tmp_path, "scontrol") == []


def test_a_task_whose_node_is_taken_away_at_once_is_put_back(
    task: Task, tmp_path: Path
) -> None:
    task.signalled(UNFINISHED, signal.SIGTERM, "empty")

    assert calls(tmp_path, "scontrol") == [["requeue", "Incomplete", "8_2"]]


def test_a_signal_that_comes_before_training_can_react_puts_the_task_back(
    task: Task, tmp_path: Path
) -> None:
    task.signalled(128 + signal.SIGTERM, signal.SIGTERM)

    assert calls(tmp_path, "scontrol") == [["requeue", "Incomplete", "8_2"]]


@pytest.mark.parametrize("ending", [0, 1, 137])
def test_a_task_that_ends_otherwise_has_the_exit_code_of_the_training(
    task: Task, tmp_path: Path, ending: int
) -> None:
    process = task.start(ending)

    said, _ = process.communicate(timeout=20)

    assert process.returncode == ending
    assert f"end (exit code {ending})" in said
    assert not (tmp_path / CALLS).exists()
    assert [*(task.folder / "slurm").iterdir()] == [task.folder / "slurm" / "task.sh"]


def test_a_task_that_slurm_does_not_put_back_says_how_to_go_on(
    task: Task, fake: Callable[[str, str], None]
) -> None:
    fake("scontrol", "echo 'Requested operation is disabled' >&2; exit 1")

    code, said = task.signalled(UNFINISHED, signal.SIGTERM)

    assert code == UNFINISHED
    assert "Requested operation is disabled" in said
    assert f"go on with: rookery sweep go '{task.folder}' --on slurm" in said


def test_a_sweep_that_a_node_does_not_have_is_one_line(task: Task) -> None:
    (task.folder / "sweep.json").unlink()

    process = task.start(0)
    said, _ = process.communicate(timeout=20)

    assert process.returncode == 2
    assert "sweeps must be on a disk that all nodes share" in said
