"""`rookery train` and `resume`: output, signals, seeds and warnings."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import rookery
from rookery.algorithms.agents import build_agents
from rookery.evaluation.play import agents_of
from rookery.runs.claim import Claim
from rookery.runs.configure import configure
from rookery.stop import UNFINISHED, StopFlag
from rookery.sweeps import child
from rookery.sweeps.local import LocalSweep
from rookery.sweeps.planning import plan_seeds
from rookery.training.warnings import advise

QUICK = {
    "rounds": 4,
    "turns_per_round": 20,
    "worlds": 4,
    "updates_per_round": 4,
    "batch_size": 16,
    "replay.warmup": 32,
    "replay.capacity": 400,
    "network.width": 16,
    "epsilon.steps": 100,
}


OVERRIDES = [f"{key}={value}" for key, value in QUICK.items()]


def warnings(**settings: object) -> str:
    entry, config = configure("treasurehunt", settings=settings)
    return "\n".join(advise(config, build_agents(config, agents_of(entry, config))))


@pytest.mark.shows("D12")
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learning_rate": 0.1}, "learning_rate 0.1 is high"),
        ({"batch_size": 2}, "batch_size 2 is small"),
        ({"target.rate": 1.0}, "the target network hardly differs"),
        ({"epsilon.steps": 10**9}, "exploration does not get down to epsilon.end"),
        ({"updates_per_round": 0}, "updates_per_round is 0"),
        ({"updates_per_round": 5000}, "it may overfit"),
        ({"discount": 1.0}, "discount is 1"),
        (
            {"epsilon.temperature": 0.1, "epsilon.start": 0.0, "epsilon.end": 0.0},
            "it never explores",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_unwise_settings_are_warned_about_with_the_reason(
    settings: dict, message: str
) -> None:
    assert message in warnings(**settings)


@pytest.mark.parametrize("algorithm", ["ppo", "vtrace", "recurrent_ppo"])
def test_agents_that_do_not_use_epsilon_are_not_warned_about_it(algorithm: str) -> None:
    assert "epsilon" not in warnings(algorithm=algorithm, **{"epsilon.steps": 10**9})


@pytest.mark.parametrize("algorithm", ["ppo", "vtrace", "recurrent_ppo"])
def test_agents_without_a_replay_are_not_warned_about_sampling_from_it(
    algorithm: str,
) -> None:
    settings = {"updates_per_round": 0, "batch_size": 2, "target.rate": 1.0, "frames": 1}

    assert warnings(algorithm=algorithm, **settings) == ""


@pytest.mark.shows("B10")
def test_a_run_too_short_to_learn_is_warned_about() -> None:
    assert "it will not learn" in warnings(rounds=1, **{"replay.warmup": 5000})


@pytest.mark.shows("B11")
def test_a_replay_smaller_than_the_experience_before_learning_is_warned_about() -> None:
    assert "the first experience is overwritten unused" in warnings(
        **{"replay.capacity": 500}
    )


def test_defaults_are_not_warned_about() -> None:
    assert warnings() == ""


def rookery_train(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "rookery", "train", "treasurehunt", *arguments],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )


def test_train_prints_one_json_object(tmp_path: Path) -> None:
    process = rookery_train(*OVERRIDES, "--json", cwd=tmp_path)
    stdout, _ = process.communicate(timeout=110)

    summary = json.loads(stdout)
    assert set(summary) == {"run", "rounds", "turns", "updates", "seconds", "agents"}
    assert summary["rounds"] == 4
    assert summary["turns"] == 80
    assert summary["updates"] == 3 * 3 * 4
    assert set(summary["agents"]) == {"0", "1", "2"}


def stop_once(
    process: subprocess.Popen[str], sent: int, condition: Callable[[], object]
) -> str:
    """Send a signal as soon as a condition holds; return the standard error."""
    try:
        while not condition():
            assert process.poll() is None
    except BaseException:
        process.kill()
        raise
    process.send_signal(sent)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == UNFINISHED
    return stderr


@pytest.mark.processes
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_an_interrupted_run_saves_its_last_round_and_prints_the_next_command(
    sent: signal.Signals, tmp_path: Path
) -> None:
    overrides = [x for x in OVERRIDES if not x.startswith("rounds")]
    process = rookery_train(*overrides, "rounds=100000", "--run", "mine", cwd=tmp_path)
    metrics = tmp_path / "mine" / "metrics.jsonl"

    stderr = stop_once(
        process, sent, lambda: metrics.exists() and metrics.read_text().count("\n") > 3
    )

    assert "evaluate: rookery evaluate mine" in stderr
    assert "Traceback" not in stderr
    assert rookery.Run(tmp_path / "mine").digest()["run"]


def test_seeds_are_trained_side_by_side_into_one_folder(tmp_path: Path) -> None:
    process = rookery_train(
        *OVERRIDES, "seeds=3..4", "--run", "many", "--json", cwd=tmp_path
    )
    stdout, _ = process.communicate(timeout=110)

    summary = json.loads(stdout)
    assert set(summary["seeds"]) == {"3", "4"}
    digests = [rookery.Run(tmp_path / "many" / f"seed-{s}").digest()["run"] for s in (3, 4)]
    assert digests[0] != digests[1]

    shutil.rmtree(tmp_path / "many" / "seed-3" / "checkpoints")
    command = [sys.executable, "-m", "rookery", "resume", "many", "rounds=5"]
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert again.returncode == 2
    # The failure of the other does not affect it.
    assert "seed 4 is done (1 of 2)" in again.stderr
    assert "error: seed 3 failed: " in again.stderr
    assert rookery.Run(tmp_path / "many" / "seed-4").metrics()["round"].max() == 5


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_seeds_that_are_stopped_save_their_state(tmp_path: Path, sent: int) -> None:
    arguments = [*OVERRIDES, "rounds=100000", "seeds=0..9", "--run", "many"]
    process = rookery_train(*arguments, cwd=tmp_path)

    stderr = stop_once(process, sent, lambda: [*tmp_path.glob("many/seed-*/metrics.jsonl")])

    assert "Stopped. Resume: rookery resume many" in stderr
    assert "of the seeds had not started; resuming starts them." in stderr
    for metrics in tmp_path.glob("many/seed-*/metrics.jsonl"):
        assert rookery.Run(metrics.parent).digest()["run"]


class Unseen:
    """A progress that nobody sees."""

    is_live = False

    def show(self, running: Sequence[str], done: int) -> None:
        pass


def test_a_seed_can_print_as_much_as_it_likes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = json.dumps({"event": "done", "cell": "seed-5", "summary": {"run": "a"}})
    code = f"""print("x" * 2**20); print("y", end=""); print({done!r})"""
    monkeypatch.setattr(child, "CODE", code)
    plan = plan_seeds(*configure("treasurehunt"), [5], tmp_path / "many")
    lines: list[str] = []

    outcome = LocalSweep(plan, StopFlag(), Unseen(), lines.append, lines.append).run()

    assert outcome.summaries == {"seed-5": {"run": str(tmp_path / "many" / "seed-5")}}
    assert lines == ["seed 5 is done (1 of 1)"]


def test_no_seed_outlives_the_process_that_started_it(tmp_path: Path) -> None:
    arguments = [*OVERRIDES, "rounds=100000", "seeds=0..9", "--run", "many"]
    process = rookery_train(*arguments, cwd=tmp_path)
    metrics = tmp_path / "many" / "seed-0" / "metrics.jsonl"
    try:
        while not metrics.exists():
            assert process.poll() is None
    finally:
        process.kill()
        process.communicate()

    deadline = time.monotonic() + 30
    while _is_locked(metrics.parent):
        assert time.monotonic() < deadline


def _is_locked(run: Path) -> bool:
    try:
        Claim(run).close()
    except rookery.ConfigError:
        return True
    return False
