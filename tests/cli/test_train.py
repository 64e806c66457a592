"""A run from start to end: what it leaves, what it says, what it refuses."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import rookery
from rookery.algorithms.agents import build_agents
from rookery.cli import seeds
from rookery.cli.train import seats_of
from rookery.config.run import Config
from rookery.evaluation.play import agents_of
from rookery.runs.configure import configure
from rookery.runs.folder import RunLock
from rookery.training.warnings import advise
from tests.paths import GAME_FILES

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
WORDS = [f"{key}={value}" for key, value in QUICK.items()]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> rookery.Run:
    folder = tmp_path_factory.mktemp("runs") / "run"
    more = {"evaluate.every_rounds": 2, "record.every_rounds": 2}
    return rookery.train("gathering", run=folder, **{"game.turns": 15}, **QUICK, **more)


@pytest.mark.shows("D9")
def test_every_figure_is_recorded_per_agent_and_round(run: rookery.Run) -> None:
    table = run.metrics()

    last = table[table["round"] == 4]
    names = [
        "reward",
        "q_value",
        "td_error",
        "entropy",
        "epsilon",
        "loss",
        "gradient_norm",
        "lag",
    ]
    assert len(table) == 4 * 3
    assert last[names].notna().all(axis=None)


def test_episodes_have_returns_and_the_games_own_counts(run: rookery.Run) -> None:
    table = run.episodes()

    assert len(table) == 5 * 4 * 3  # five of 15 turns, and one to close, in each world
    assert {
        "round",
        "world",
        "episode",
        "turns",
        "agent",
        "return",
        "apples",
        "zaps",
    } <= set(table.columns)
    assert (table["turns"] == 15).all()


def test_evaluations_are_played_greedily_and_as_trained(run: rookery.Run) -> None:
    table = run.evaluations()

    assert set(table["round"]) == {2, 4}
    assert set(table["players"]) == {"greedy", "as_trained"}


def test_noisy_agents_are_judged_with_their_noise_and_without_it(tmp_path: Path) -> None:
    more = {"iqn.noisy": True, "evaluate.every_rounds": 4}
    run = rookery.train("treasurehunt", run=tmp_path / "run", **QUICK, **more)

    figures = run.evaluations().set_index("players")["mean"]
    assert figures["greedy"].tolist() != figures["as_trained"].tolist()
    seats = [seats_of(run, greedy) for greedy in (True, False)]
    matches = [rookery.play("treasurehunt", seat, episodes=8) for seat in seats]
    assert (matches[0].returns != matches[1].returns).any()


def test_a_run_leaves_everything_in_its_folder(run: rookery.Run) -> None:
    names = {path.name for path in run.path.iterdir()}

    assert names == {
        "config.toml",
        "seal.json",
        "metrics.jsonl",
        "episodes.jsonl",
        "evaluations.jsonl",
        "events.jsonl",
        "tensorboard",
        "checkpoints",
        "weights",
        "recordings",
    }
    assert [p.name for p in (run.path / "checkpoints").iterdir()] == ["ckpt-4"]
    recorded = rookery.Recording.load(run.path / "recordings" / "round-4.safetensors")
    assert recorded.turns == 15


def test_tensorboard_shows_the_figures(run: rookery.Run) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = EventAccumulator(str(run.path / "tensorboard"))
    board.Reload()

    assert {"0/loss", "1/reward", "2/return", "evaluation/greedy"} <= set(
        board.Tags()["scalars"]
    )


def test_a_trained_agent_acts_by_itself(run: rookery.Run) -> None:
    agent = run.players()[1]
    observation = {name: 0 * _zeros(part) for name, part in agent.spec.parts.items()}

    action = agent.act(observation)

    assert 0 <= action < agent.spec.num_actions
    agent.reset()
    assert agent.act(observation) == action


def _zeros(part: object) -> object:
    import numpy as np

    return np.zeros(part.shape, part.dtype)


def test_trained_agents_play_in_any_seat_that_fits(run: rookery.Run) -> None:
    trained = run.players()

    match = rookery.play("gathering", {0: trained[2], 1: "greedy"}, episodes=2, turns=10)

    assert match.returns.shape == (2, 3)


def test_a_seat_that_does_not_fit_is_a_clear_error(run: rookery.Run) -> None:
    with pytest.raises(rookery.PlayerError, match=r"cannot play agent '0': it was trained"):
        rookery.play("treasurehunt", run.players()[0])


def test_unknown_round_or_agent_is_a_clear_error(run: rookery.Run) -> None:
    with pytest.raises(
        rookery.ConfigError, match="kept no weights of round 3: there are 4"
    ):
        run.players(3)
    with pytest.raises(rookery.ConfigError, match="no trained agent '7'"):
        run.players()[7]


def test_crossplay_gives_a_matrix(run: rookery.Run) -> None:
    found = rookery.crossplay([run, run.path], episodes=3)

    assert found.means.shape == (2, 2)
    assert found.means[0, 0] == found.means[1, 1]


def test_warmup_larger_than_the_replay_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        rookery.ConfigError, match=r"would never learn: replay\.capacity is 50"
    ):
        rookery.train(
            "treasurehunt",
            run=tmp_path / "run",
            **{"replay.capacity": 50, "replay.warmup": 60},
        )


def warnings(**settings: object) -> str:
    entry, config = configure("treasurehunt", settings=settings)
    return "\n".join(advise(config, build_agents(config, agents_of(entry, config))))


@pytest.mark.shows("D12")
@pytest.mark.parametrize(
    ("settings", "words"),
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
    settings: dict, words: str
) -> None:
    assert words in warnings(**settings)


@pytest.mark.parametrize("algorithm", ["ppo", "vtrace", "recurrent_ppo"])
def test_who_does_not_explore_by_epsilon_is_not_warned_about_it(algorithm: str) -> None:
    assert "epsilon" not in warnings(algorithm=algorithm, **{"epsilon.steps": 10**9})


@pytest.mark.parametrize("algorithm", ["ppo", "vtrace", "recurrent_ppo"])
def test_who_has_no_replay_is_not_warned_about_drawing_from_it(algorithm: str) -> None:
    settings = {"updates_per_round": 0, "batch_size": 2, "target.rate": 1.0, "frames": 1}

    assert warnings(algorithm=algorithm, **settings) == ""


@pytest.mark.shows("B10")
def test_a_run_too_short_to_ever_learn_is_pointed_out() -> None:
    assert "it will not learn" in warnings(rounds=1, **{"replay.warmup": 5000})


@pytest.mark.shows("B11")
def test_a_replay_smaller_than_what_is_played_before_learning_is_pointed_out() -> None:
    assert "experience is overwritten unused" in warnings(**{"replay.capacity": 500})


def test_the_shipped_defaults_are_not_warned_about() -> None:
    assert warnings() == ""


@pytest.mark.shows("A8")
def test_every_switch_of_parallelism_exists_and_can_be_turned_off(tmp_path: Path) -> None:
    switches = {"workers": 0, "schedule": "sync", "worlds": 1, "turns_per_round": 40}
    settings = {**QUICK, **switches, "replay.warmup": 16}

    run = rookery.train("treasurehunt", run=tmp_path / "run", **settings)

    assert run.config.workers == 0


def rookery_train(*words: str, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "rookery", "train", "treasurehunt", *words],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )


def test_train_prints_one_json_object(tmp_path: Path) -> None:
    process = rookery_train(*WORDS, "--json", cwd=tmp_path)
    printed, _ = process.communicate(timeout=110)

    found = json.loads(printed)
    assert set(found) == {"run", "rounds", "turns", "updates", "seconds", "agents"}
    assert found["rounds"] == 4
    assert found["turns"] == 80
    assert found["updates"] == 3 * 3 * 4
    assert set(found["agents"]) == {"0", "1", "2"}


def stop_once(
    process: subprocess.Popen[str], sent: int, begun: Callable[[], object]
) -> str:
    """Send a signal as soon as something holds; return what the process had to say."""
    try:
        while not begun():
            assert process.poll() is None
    except BaseException:
        process.kill()
        raise
    process.send_signal(sent)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + sent
    return said


@pytest.mark.processes
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_interrupting_a_run_leaves_its_last_round_and_says_how_to_look_at_it(
    sent: signal.Signals, tmp_path: Path
) -> None:
    words = [word for word in WORDS if not word.startswith("rounds")]
    process = rookery_train(*words, "rounds=100000", "--run", "mine", cwd=tmp_path)
    metrics = tmp_path / "mine" / "metrics.jsonl"

    said = stop_once(
        process, sent, lambda: metrics.exists() and metrics.read_text().count("\n") > 3
    )

    assert "look at it: rookery evaluate mine" in said
    assert "Traceback" not in said
    assert rookery.Run(tmp_path / "mine").digest()["run"]


def test_seeds_are_trained_side_by_side_into_one_folder(tmp_path: Path) -> None:
    process = rookery_train(*WORDS, "seeds=3..4", "--run", "many", "--json", cwd=tmp_path)
    printed, _ = process.communicate(timeout=110)

    found = json.loads(printed)
    assert set(found["seeds"]) == {"3", "4"}
    digests = [rookery.Run(tmp_path / "many" / f"seed-{s}").digest()["run"] for s in (3, 4)]
    assert digests[0] != digests[1]

    shutil.rmtree(tmp_path / "many" / "seed-3" / "checkpoints")
    command = [sys.executable, "-m", "rookery", "resume", "many"]
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert again.returncode == 2
    assert "seed 4 is done (1 of 2)" in again.stderr  # which the other's failure let be
    assert "error: seed 3 failed: " in again.stderr


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_seeds_that_are_stopped_save_what_they_have(tmp_path: Path, sent: int) -> None:
    words = [*WORDS, "rounds=100000", "seeds=0..9", "--run", "many"]
    process = rookery_train(*words, cwd=tmp_path)

    said = stop_once(process, sent, lambda: [*tmp_path.glob("many/seed-*/metrics.jsonl")])

    assert "Stopped. Go on: rookery resume many" in said
    assert "of the seeds had not begun; resuming starts them." in said
    for metrics in tmp_path.glob("many/seed-*/metrics.jsonl"):
        assert rookery.Run(metrics.parent).digest()["run"]


def test_a_seed_may_print_as_much_as_it_likes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = """print("x" * 2**20); print('{\\n  "run": "a"\\n}')"""
    monkeypatch.setattr(seeds, "START", talk)

    assert seeds._Batch({5: []}).run(1, tmp_path) == {"5": {"run": "a"}}


def test_no_seed_outlives_the_process_that_started_it(tmp_path: Path) -> None:
    words = [*WORDS, "rounds=100000", "seeds=0..9", "--run", "many"]
    process = rookery_train(*words, cwd=tmp_path)
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
        RunLock(run).close()
    except rookery.ConfigError:
        return True
    return False


def test_a_run_of_a_users_file_needs_its_name_again(tmp_path: Path) -> None:
    rooms = f"{GAME_FILES / 'rooms.py'}:Rooms"
    rookery.train(rooms, run=tmp_path / "run", game={"agents": 2}, **QUICK)

    with pytest.raises(rookery.ConfigError, match="if you trust it, name it again: --game"):
        rookery.Run(tmp_path / "run").players()
    assert set(rookery.Run(tmp_path / "run", game=rooms).players()) == {"0", "1"}


def test_a_network_of_another_shape_cannot_be_started_from(tmp_path: Path) -> None:
    rookery.train("treasurehunt", run=tmp_path / "a", **QUICK)
    wider = {**QUICK, "network.width": 17}

    with pytest.raises(
        rookery.ConfigError, match="has another shape; use the same settings"
    ):
        rookery.train(
            "treasurehunt",
            run=tmp_path / "b",
            agents={0: {"from": f"{tmp_path / 'a'}:0"}},
            **wider,
        )


def test_config_is_what_the_run_was_asked_to_do(run: rookery.Run) -> None:
    assert isinstance(run.config, Config)
    assert run.config.rounds == 4
    assert run.config.game.name == "gathering"


@pytest.mark.shows("A4")
def test_another_process_rebuilds_the_agents_from_plain_files(
    run: rookery.Run, tmp_path: Path
) -> None:
    code = (
        "import json, sys, rookery\n"
        "run = rookery.Run(sys.argv[1])\n"
        "match = rookery.play('gathering', run.players(), episodes=3, turns=10)\n"
        "print(json.dumps(match.returns.tolist()))\n"
    )
    command = [sys.executable, "-c", code, str(run.path)]
    there = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)

    here = rookery.play("gathering", run.players(), episodes=3, turns=10)

    assert json.loads(there.stdout) == here.returns.tolist()
