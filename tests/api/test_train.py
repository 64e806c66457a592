"""`rookery.train` from Python: progress, warnings, callbacks and seeds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import rookery
from rookery.cli.app import main
from rookery.errors import ConfigError
from rookery.runs.claim import Claim
from rookery.sweeps.axes import parse_seeds
from tests.small import HUNT, overrides

SETTINGS: dict[str, Any] = {**HUNT, "workers": 0}
GAME = "treasurehunt"
UNWISE = {**SETTINGS, "learning_rate": 0.5}
HIGH = "learning_rate 0.5 is high for Adam"


def events(run: rookery.Run, event: str) -> list[str]:
    lines = (run.path / "events.jsonl").read_text().splitlines()
    return [x["line"] for x in map(json.loads, lines) if x["event"] == event]


def test_outside_a_terminal_training_is_silent(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rookery.train(GAME, run=tmp_path / "run", **SETTINGS)

    assert capfd.readouterr() == ("", "")


def test_progress_can_be_asked_for_outside_a_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rookery.train(GAME, run=tmp_path / "run", progress=True, **SETTINGS)

    assert capfd.readouterr().err.startswith("round 6 of 6  ")


@pytest.mark.shows("D12")
def test_warnings_are_python_warnings_at_the_line_of_the_call(tmp_path: Path) -> None:
    with pytest.warns(rookery.RookeryWarning, match=HIGH) as caught:
        run = rookery.train(GAME, run=tmp_path / "run", **UNWISE)

    assert [warning.filename for warning in caught] == [__file__] * len(caught)
    assert any(HIGH in line for line in events(run, "warning"))


@pytest.mark.filterwarnings("error")
def test_a_warning_that_is_an_error_ends_the_run_and_frees_its_folder(
    tmp_path: Path,
) -> None:
    with pytest.raises(rookery.RookeryWarning, match=HIGH):
        rookery.train(GAME, run=tmp_path / "run", **UNWISE)

    Claim(tmp_path / "run").close()


def test_warnings_of_the_command_line_are_events_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["train", GAME, *overrides(UNWISE), "--run", str(tmp_path / "run")])

    assert f"warning: {HIGH}" in " ".join(capsys.readouterr().err.split())
    assert any(HIGH in line for line in events(rookery.Run(tmp_path / "run"), "warning"))


def test_an_agent_that_stops_learning_is_warned_about_once(tmp_path: Path) -> None:
    class Infinite(nn.Module):
        def __init__(self, spec: Any, settings: Any) -> None:
            super().__init__()
            self.values = nn.Parameter(torch.full((spec.num_actions,), torch.inf))

        def forward(self, parts: dict[str, torch.Tensor]) -> torch.Tensor:
            return self.values.expand(len(parts["view"]), -1)

    with pytest.warns(rookery.RookeryWarning, match="agent '0' stopped learning: its loss"):
        run = rookery.train(GAME, run=tmp_path / "run", algorithm=Infinite, **SETTINGS)

    stopped = [line for line in events(run, "warning") if "'0' stopped learning" in line]
    assert len(stopped) == 1


def test_a_callback_gets_every_round(tmp_path: Path) -> None:
    results: list[rookery.Round] = []

    rookery.train(GAME, run=tmp_path / "run", callback=results.append, **SETTINGS)

    assert [result.number for result in results] == [1, 2, 3, 4, 5, 6]
    last = results[-1]
    assert last.rounds == 6
    assert set(last.metrics) == {"0", "1", "2"}
    assert [set(result.returns) for result in results][:2] == [set(), {"0", "1", "2"}]
    assert {"reward", "loss", "epsilon"} <= set(last.metrics["0"])
    assert results[0].elapsed < last.elapsed
    assert repr(results[1]).startswith("<Round 2 of 6: returns 0: ")
    assert repr(results[0]).startswith("<Round 1 of 6: no episode ended; 0.")


def test_a_callback_that_returns_true_stops_and_saves_the_run(tmp_path: Path) -> None:
    whole = rookery.train(GAME, run=tmp_path / "whole", **SETTINGS)
    run = rookery.train(
        GAME, run=tmp_path / "run", callback=lambda result: result.number == 3, **SETTINGS
    )
    assert repr(run) == f"<Run {tmp_path}/run: treasurehunt, round 3 of 6, stopped>"

    rookery.resume(run.path)

    assert repr(run).endswith("round 6 of 6, finished>")
    assert rookery.digest(run) == rookery.digest(whole)


def test_a_callback_that_raises_ends_a_run_that_is_saved(tmp_path: Path) -> None:
    def prune(result: rookery.Round) -> None:
        if result.number == 2:
            raise LookupError("pruned")

    with pytest.raises(LookupError, match="pruned"):
        rookery.train(GAME, run=tmp_path / "run", callback=prune, **SETTINGS)

    assert rookery.digest(tmp_path / "run").exact
    assert repr(rookery.Run(tmp_path / "run")).endswith("round 2 of 6, failed>")


def test_a_callback_that_returns_anything_else_is_an_error(tmp_path: Path) -> None:
    message = "callback returned '1' after round 1: return True to stop the run, and None"

    with pytest.raises(ConfigError, match=message):
        rookery.train(GAME, run=tmp_path / "run", callback=lambda result: 1, **SETTINGS)  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"show": print}, "train has no 'show': write callback="),
        ({"callback": 3}, "callback is '3', expected a function."),
        ({"progress": "yes"}, "progress is 'yes', expected True or False."),
        ({"run": 3}, "run is 3, expected text or Path."),
        ({"seeds": "a few"}, "'seeds=a few' is not a list of seeds: write seeds=0..9"),
        ({"seeds": 3}, "'seeds=3' is not a list of seeds"),
        ({"seeds": []}, r"'seeds=\[\]' is not a list of seeds"),
        ({"rounds": "many"}, "rounds must be a whole number, got 'many'"),
        ({"rounds": object()}, "rounds must be a whole number"),
        ({"replay.capacity": [1]}, r"replay.capacity must be a whole number, got \[1\]"),
        ({"replay": 5}, "replay must be a group of settings, got 5"),
        ({"game": 5}, "game must be a group of settings, got 5"),
        ({"agents": {0: 5}}, "agents.0 must be a group of settings, got 5"),
        ({"algorithm": 5}, "algorithm must be text"),
        ({"gama": 5}, "unknown setting 'gama'"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        rookery.train(GAME, **arguments)

    assert not Path("runs").exists()


@pytest.mark.parametrize("game", [3, int, object()], ids=["number", "class", "object"])
def test_a_game_that_is_none_is_named(game: Any) -> None:
    with pytest.raises(ConfigError, match=r"game is .*, expected the name of a game, or a"):
        rookery.train(game)


@pytest.mark.parametrize(
    ("seeds", "numbers"),
    [
        ("0..3", [0, 1, 2, 3]),
        ("1,4,7", [1, 4, 7]),
        (range(2, 4), [2, 3]),
        ((5, 5, 1), [5, 1]),
        ({"a": 1}.values(), [1]),
    ],
    ids=str,
)
def test_seeds_can_be_text_a_range_or_a_list(seeds: Any, numbers: list[int]) -> None:
    assert parse_seeds(seeds) == numbers


@pytest.mark.processes
def test_seeds_are_trained_side_by_side_and_are_the_runs_of_single_seeds(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = {**UNWISE, "algorithm": "dqn", "agents": {1: {"algorithm": "ppo"}}}
    with pytest.warns(rookery.RookeryWarning, match=f"seed .: {HIGH}") as caught:
        runs = rookery.train(GAME, seeds=range(2), run=tmp_path / "side", **settings)
    assert len([x for x in caught if HIGH in str(x.message)]) == 1
    assert repr(runs) == f"<Runs {tmp_path}/side: 2 seeds>"

    alone = [
        rookery.train(GAME, seed=seed, run=tmp_path / f"alone-{seed}", **settings)
        for seed in range(2)
    ]

    assert [rookery.digest(run) for run in runs] == [rookery.digest(run) for run in alone]
    assert capfd.readouterr() == ("", "")


def test_seeds_with_a_callback_are_trained_one_by_one(tmp_path: Path) -> None:
    results: list[int] = []

    def stop_at_four(result: rookery.Round) -> bool:
        results.append(result.number)
        return result.number == 4

    runs = rookery.train(
        GAME, seeds="3,5", run=tmp_path / "run", callback=stop_at_four, **SETTINGS
    )
    assert results == [1, 2, 3, 4] * 2
    assert [run.config.seed for run in runs] == [3, 5]

    resumed = rookery.resume(tmp_path / "run", callback=lambda result: None)

    assert [repr(run)[-12:] for run in resumed] == ["6, finished>"] * 2
    alone = rookery.train(GAME, seed=5, run=tmp_path / "alone", **SETTINGS)
    assert rookery.digest(resumed[1]) == rookery.digest(alone)
