"""Training a run longer, with other settings: the bits of a run that had them at once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rookery
from rookery.errors import ConfigError
from rookery.runs import changes, session
from rookery.runs.changes import CHANGES, read_history
from rookery.runs.configure import configure
from rookery.runs.session import Session
from rookery.sweeps import changes as sweep_changes
from tests.small import GAME as CHICKEN
from tests.small import HUNT, SETTINGS, SMALL
from tests.small import train as train_smallest

pytestmark = pytest.mark.filterwarnings("ignore::rookery.errors.RookeryWarning")

ALGORITHMS = (
    "dqn",
    "iqn",
    "ppo",
    "vtrace",
    "recurrent_dqn",
    "recurrent_ppo",
    "tabular",
)
EXTENDED: dict[str, Any] = {
    **SMALL,
    "rounds": 4,
    "workers": 0,
    "rate.schedule": "linear",
    "rate.rounds": 8,
    "recurrent.width": 16,
    "recurrent.sequence": 8,
    "recurrent.burn_in": 2,
    "checkpoints.every_rounds": 2,
}
MIXED = {str(i): {"algorithm": name} for i, name in enumerate(ALGORITHMS)}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    name: ("iterated_prisoners_dilemma", {"algorithm": name}) for name in ALGORITHMS
} | {
    "mixed": ("treasurehunt", {"game": {"agents": 7, "turns": 15}, "agents": MIXED}),
    "sync": ("treasurehunt", {"schedule": "sync", "game.turns": 15}),
    "on disk": ("treasurehunt", {"storage": "disk", "game.turns": 15}),
}


def killed(work: Callable[[], object]) -> None:
    """Do some work in another process, which must end by SIGKILL."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL


def kill(*arguments: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_after(number: int) -> Callable[[Any], None]:
    """Return what kills the process after a round, given as a callback."""
    return lambda result: kill() if result.number == number else None


@pytest.mark.shows("F4")
@pytest.mark.parametrize(
    ("case", "workers"), [*((case, 0) for case in CASES), ("mixed", 2)]
)
def test_a_run_extended_twice_and_killed_each_time_has_the_digest_of_all_rounds_at_once(
    case: str, workers: int, tmp_path: Path
) -> None:
    game, more = CASES[case]
    settings = EXTENDED | more
    whole = rookery.train(game, run=tmp_path / "whole", **settings | {"rounds": 8})
    folder = tmp_path / "run"
    rookery.train(game, run=folder, **settings)

    killed(
        lambda: rookery.resume(folder, rounds=6, workers=workers, callback=kill_after(5))
    )
    rookery.resume(folder)
    killed(lambda: rookery.resume(folder, rounds=8, workers=0, callback=kill_after(7)))
    run = rookery.resume(folder)

    assert run.config.rounds == 8
    assert run.metrics()["round"].unique().tolist() == list(range(1, 9))
    assert run.digest() == whole.digest()
    assert run.digest()["exact"]
    changed = [change.settings.get("rounds") for change in read_history(folder).changes]
    assert changed[:2] == [(4, 6), (6, 8)]


@pytest.fixture
def finished(tmp_path: Path) -> rookery.Run:
    return train_smallest(tmp_path / "run")


def rounds_in(run: rookery.Run, name: str) -> list[int]:
    lines = (run.path / name).read_text().splitlines()
    return [json.loads(line)["round"] for line in lines]


@pytest.mark.parametrize("step", ["write_with_checksum", "_replace_config"])
def test_a_kill_before_or_after_the_history_is_written_leaves_the_old_or_the_new_settings(
    step: str, finished: rookery.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, step, kill)
    killed(lambda: rookery.resume(finished.path, rounds=6, restarts={"limit": 9}))
    monkeypatch.undo()
    before = rookery.Run(finished.path)
    assert (before.config.rounds, before.is_exact) == (4, True)

    run = rookery.resume(finished.path)

    expected = {"write_with_checksum": (4, 5), "_replace_config": (6, 9)}[step]
    assert (run.config.rounds, run.config.restarts.limit) == expected
    assert run.metrics()["round"].max() == expected[0]
    assert run.is_exact


def test_every_change_is_in_the_history_with_its_round(finished: rookery.Run) -> None:
    rookery.resume(finished.path, rounds=5, evaluate={"every_rounds": 5})
    rookery.resume(finished.path, **{"checkpoints.keep": 3})

    history = json.loads((finished.path / CHANGES).read_text())
    assert [(change["round"], change["settings"]) for change in history["changes"]] == [
        (4, {"rounds": [4, 5], "evaluate.every_rounds": [0, 5]}),
        (5, {"checkpoints.keep": [2, 3]}),
    ]
    settings = tomllib.loads((finished.path / "config.toml").read_text())
    assert settings["rounds"] == 5
    assert settings["evaluate"]["every_rounds"] == 5
    assert settings["checkpoints"]["keep"] == 3
    events = (finished.path / "events.jsonl").read_text()
    assert events.count('"event": "changed"') == 2


def test_a_resume_that_asks_for_nothing_new_changes_nothing(finished: rookery.Run) -> None:
    rookery.resume(finished.path, rounds=4, learning_rate=5e-4)

    assert not (finished.path / CHANGES).exists()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"learning_rate": 0.01}, "learning_rate=0.01"),
        ({"seed": 3}, "seed=3"),
        ({"schedule": "sync"}, "schedule=sync"),
        ({"storage": "disk"}, "storage=disk"),
        ({"agents": {"0": {"discount": 0.5}}}, "agents.0.discount=0.5"),
        ({"game": {"turns": 9}}, "game.turns=9"),
    ],
)
def test_what_cannot_change_is_refused_with_the_setting_and_what_to_do(
    settings: dict[str, Any], named: str, finished: rookery.Run
) -> None:
    before = (finished.path / "config.toml").read_bytes()

    with pytest.raises(ConfigError) as refused:
        rookery.resume(finished.path, **{"rounds": 9, **settings})

    message, key = str(refused.value), named.partition("=")[0]
    assert message.startswith(f"{key} cannot be changed when a run is resumed, only rounds")
    assert message.endswith(
        f": start a new run from these agents: rookery train {CHICKEN} {named} "
        f"'agents.\"*\".from={finished.path}'"
    )
    assert "\n" not in message
    assert (finished.path / "config.toml").read_bytes() == before
    assert not (finished.path / CHANGES).exists()


def test_a_misspelt_setting_is_answered_with_the_right_one(finished: rookery.Run) -> None:
    with pytest.raises(ConfigError, match=r"unknown setting 'round'.*'rounds'"):
        rookery.resume(finished.path, round=9)


def test_fewer_rounds_than_were_trained_are_refused(finished: rookery.Run) -> None:
    with pytest.raises(
        ConfigError, match=r"rounds is 3, but .* has trained 4 already: give .* rounds=4"
    ):
        rookery.resume(finished.path, rounds=3)

    assert rookery.Run(finished.path).config.rounds == 4


def test_a_change_that_cannot_start_is_not_written(finished: rookery.Run) -> None:
    with pytest.raises(ConfigError, match=r"nothing\.py"):
        rookery.resume(finished.path, rounds=6, probe="./nothing.py:ask")

    assert rookery.resume(finished.path).config.rounds == 4


@pytest.mark.parametrize("text", ["{}", '{"changes": 3, "sum": ""}', "", "[]"])
def test_a_damaged_history_is_refused_in_one_line(text: str, finished: rookery.Run) -> None:
    rookery.resume(finished.path, rounds=5)
    (finished.path / CHANGES).write_text(text)

    with pytest.raises(ConfigError, match=r"changes.json is not what was written when"):
        rookery.resume(finished.path)


def test_without_its_history_changed_settings_count_as_edited(
    finished: rookery.Run,
) -> None:
    rookery.resume(finished.path, rounds=5)
    (finished.path / CHANGES).unlink()

    with pytest.raises(ConfigError, match="rounds was 4 and is 5"):
        rookery.resume(finished.path)


def test_evaluations_are_keyed_by_round_whatever_was_due_before(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run = train_smallest(folder, **{"evaluate.every_rounds": 3})

    rookery.resume(folder, rounds=8, evaluate={"every_rounds": 2})
    rookery.resume(
        folder, rounds=9, evaluate={"every_rounds": 3}, record={"every_rounds": 4}
    )
    rookery.resume(folder, evaluate={"every_rounds": 1})
    rookery.resume(folder)

    assert rounds_in(run, "evaluations.jsonl") == [3, 3, 4, 4, 6, 6, 8, 8, 9, 9]
    recorded = sorted(path.name for path in (folder / "recordings").iterdir())
    assert recorded == ["round-8.safetensors"]


def test_an_evaluation_does_not_depend_on_when_it_was_asked_for(tmp_path: Path) -> None:
    whole = train_smallest(tmp_path / "whole", rounds=6, **{"evaluate.every_rounds": 2})
    run = train_smallest(tmp_path / "run")

    rookery.resume(run.path, rounds=6, evaluate={"every_rounds": 2})

    expected = whole.evaluations().query("round >= 4").reset_index(drop=True)
    assert run.evaluations().equals(expected)


FALLING = {**HUNT, "rounds": 4, "workers": 0, "rate.schedule": "linear"}


def falling(folder: Path, **settings: Any) -> rookery.Run:
    return rookery.train("treasurehunt", run=folder, **{**FALLING, **settings})


def note_of(folder: Path, **settings: Any) -> tuple[str, list[str]]:
    """Return the note and the warnings of a session that resumes a run."""
    from rookery.runs.resume import resumed_config

    run = rookery.Run(folder)
    config = resumed_config(run, settings=settings)
    session = Session(run.entry, config, folder, resume=True)
    session.run(lambda result: None)
    return session.note, session.training.warnings


def test_a_falling_rate_stays_as_it_was_spread_and_the_note_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    whole = falling(tmp_path / "whole", rounds=7, **{"rate.rounds": 4})
    falling(folder)

    note, _ = note_of(folder, rounds=6)
    again, _ = note_of(folder, rounds=7)

    assert note == (
        "changed: rounds 4 → 6, rate.rounds unset → 4. The learning rate falls over the "
        "first 4 rounds, as before; to let it fall over all, resume with rate.rounds=6."
    )
    assert again == "changed: rounds 6 → 7."
    assert rookery.Run(folder).digest() == whole.digest()
    assert rookery.Run(folder).is_exact


@pytest.mark.parametrize("settings", [{"rate.rounds": 6}, {"rate": {"updates": 18}}])
def test_a_rate_that_is_spread_again_is_marked_as_not_exact(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    falling(folder)

    _, warnings = note_of(folder, rounds=6, **settings)

    assert warnings[-1] == (
        "the schedule of the learning rate was changed after round 4, and the run is "
        "marked as not exact."
    )
    run = rookery.Run(folder)
    assert {agent.settings.rate.updates for agent in run.agents} == {18}
    assert not run.is_exact


def test_a_run_without_replays_in_its_checkpoints_says_that_it_is_not_exact(
    tmp_path: Path,
) -> None:
    falling(tmp_path / "run", **{"checkpoints.replay": False, "rate.schedule": "constant"})

    _, warnings = note_of(tmp_path / "run", rounds=5)

    assert warnings[-1].startswith("it continues without replays, and the run is marked")


def test_an_async_run_can_be_extended_and_says_that_it_is_not_exact(tmp_path: Path) -> None:
    falling(tmp_path / "run", schedule="async", **{"rate.schedule": "constant"})

    _, warnings = note_of(tmp_path / "run", rounds=6)

    assert any("schedule is async: results depend on timing" in x for x in warnings)
    run = rookery.Run(tmp_path / "run")
    assert run.metrics()["round"].max() == 6
    assert not run.is_exact


FALLING_SEEDS = {**SETTINGS, "rate.schedule": "linear", "rounds": 4}


def resume_seeds(folder: Path, **settings: Any) -> list[rookery.Run]:
    """Resume seeds one by one in this process."""
    return list(rookery.resume(folder, callback=lambda result: None, **settings))


def test_seeds_whose_change_is_killed_half_way_all_get_it_on_the_next_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "run"
    longer = FALLING_SEEDS | {"rounds": 6, "rate.rounds": 4}
    settings = {"seeds": range(3), "callback": lambda result: None}
    expected = rookery.train(CHICKEN, run=whole, **settings, **longer)
    rookery.train(CHICKEN, run=folder, **settings, **FALLING_SEEDS)
    shutil.rmtree(folder / "seed-2")  # as if it had not started
    record_change, changed = session.record_change, []

    def kill_at_second(run: Path, *arguments: Any) -> Any:
        changed.append(run)
        return record_change(run, *arguments) if len(changed) == 1 else kill()

    monkeypatch.setattr(session, "record_change", kill_at_second)
    killed(lambda: resume_seeds(folder, rounds=6))
    monkeypatch.undo()
    assert [run.config.rounds for run in rookery.Run.seeds(folder)] == [6, 4]

    runs = resume_seeds(folder)

    assert [run.digest() for run in runs] == [run.digest() for run in expected]
    assert [run.metrics()["round"].max() for run in runs] == [6, 6, 6]


@pytest.mark.parametrize("step", ["before", "after"])
def test_a_change_of_seeds_is_made_in_all_or_in_none(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    called = {"seeds": "0..1", "callback": lambda result: None}
    rookery.train(CHICKEN, run=folder, **called, **SETTINGS)
    write_plan = sweep_changes.write_plan

    def kill_then(*arguments: Any) -> None:
        if step == "after":
            write_plan(*arguments)
        kill()

    monkeypatch.setattr(sweep_changes, "write_plan", kill_then)
    killed(lambda: resume_seeds(folder, rounds=6))
    monkeypatch.undo()

    assert [run.config.rounds for run in rookery.Run.seeds(folder)] == [4, 4]
    rounds = {"before": 4, "after": 6}[step]
    assert [run.config.rounds for run in resume_seeds(folder)] == [rounds] * 2


def test_seeds_that_start_late_have_the_changes_that_the_others_got(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    settings = {"seeds": "0..1", "callback": lambda result: None}
    rookery.train(CHICKEN, run=folder, **settings, **FALLING_SEEDS)
    first, _ = (run.digest() for run in resume_seeds(folder, rounds=5, workers=0))
    _, second = (run.digest() for run in resume_seeds(folder, rounds=6))
    shutil.rmtree(folder / "seed-1")

    runs = resume_seeds(folder)

    assert runs[1].digest() == second
    assert runs[1].config.rate.rounds == 4
    assert [read_history(run.path).planned for run in runs] == [2, 2]
    assert runs[0].digest() != first


def test_a_change_that_one_seed_cannot_have_is_made_in_none(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    settings = {"seeds": "0..1", "callback": lambda result: None}
    rookery.train(CHICKEN, run=folder, **settings, **SETTINGS)
    rookery.resume(folder / "seed-1", rounds=6)

    with pytest.raises(ConfigError, match=r"seed-1 has trained 6 already"):
        resume_seeds(folder, rounds=5)

    assert [run.config.rounds for run in rookery.Run.seeds(folder)] == [4, 6]
    assert [run.config.rounds for run in resume_seeds(folder)] == [4, 6]


def test_a_run_killed_before_its_first_checkpoint_can_be_extended(tmp_path: Path) -> None:
    entry, config = configure(CHICKEN, settings=SETTINGS | {"checkpoints.every_rounds": 0})
    folder = tmp_path / "run"
    folder.mkdir()
    killed(lambda: Session(entry, config, folder).run(kill_after(2)))
    whole = train_smallest(tmp_path / "whole", rounds=6)

    killed(lambda: rookery.resume(folder, rounds=6, callback=kill_after(1)))
    run = rookery.resume(folder)

    assert run.config.rounds == 6
    assert run.digest() == whole.digest()
