"""Tables, intervals and plots of several runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rookery
from rookery.errors import ConfigError
from rookery.studies.statistics import bootstrap, interquartile_mean
from tests.small import HUNT

STAG = {**HUNT, "workers": 0, "game.turns": 5, "evaluate.every_rounds": 3}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of four runs: two discounts, two seeds."""
    folder = tmp_path_factory.mktemp("study")
    for discount in (0.0, 0.9):
        rookery.train(
            "iterated_stag_hunt",
            seeds=(9, 10),
            run=folder / f"discount-{discount}",
            callback=lambda result: None,
            **STAG,
            discount=discount,
        )
    return folder


def test_the_table_has_one_row_per_run_with_what_differs(study: Path) -> None:
    table = rookery.table(study)

    names = ["run", "game", "discount", "seed", "rounds", "state", "trained", "return"]
    assert list(table.columns) == [*names, "turns", "stag"]
    assert table["discount"].tolist() == [0.0, 0.0, 0.9, 0.9]
    assert table["seed"].tolist() == [9, 10, 9, 10]
    assert table["run"][1] == str(study / "discount-0.0" / "seed-10")
    assert set(table["state"]) == {"finished"}
    assert table["turns"].tolist() == [5.0] * 4


def test_the_scores_of_the_table_are_means_of_the_last_quarter(study: Path) -> None:
    run = rookery.Run(study / "discount-0.9" / "seed-9")

    row = rookery.table(run).iloc[0]

    episodes = run.episodes()
    last = episodes[episodes["round"] > 4.5]  # of 6 rounds
    assert row["return"] == pytest.approx(last["return"].mean())
    assert row["stag"] == pytest.approx(last["stag"].mean())
    evaluations = run.evaluations()
    rows = (evaluations["players"] == "trained") & (evaluations["round"] == 6)
    trained = evaluations[rows]
    assert row["trained"] == pytest.approx(trained["mean"].mean())


def test_runs_have_a_table_and_a_plot(study: Path) -> None:
    runs = rookery.Runs(study, rookery.Run.seeds(study / "discount-0.0"))

    assert len(runs.table()) == 2
    ax = runs.plot("stag")
    assert len(ax.lines) == 1
    assert ax.get_ylabel() == "stag per agent and episode"
    assert runs.plot("loss").get_ylabel() == "loss"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("nowhere", "there is no run in nowhere: name a folder that"),
        (3, "source is 3, exp"),
    ],
)
def test_a_source_without_runs_is_named(source: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        rookery.table(source)


def test_an_interval_is_the_bootstrap_interval_of_the_interquartile_mean() -> None:
    values = [1.0, 2.0, 3.0, 4.0, 100.0]

    estimate = rookery.interval(values)

    low, high = bootstrap(values)
    assert (estimate.low, estimate.high, estimate.count) == (low, high, 5)
    assert float(estimate) == float(interquartile_mean(values))
    assert repr(estimate) == f"{float(estimate):.4g} [{low:.4g}, {high:.4g}]"
    assert rookery.interval(values, "mean").value == np.mean(values)
    assert rookery.interval(iter(values), "median").value == 3.0


def test_one_value_has_no_interval() -> None:
    assert repr(rookery.interval([2.5])) == "2.5 [one value: no interval]"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], r"values is '\[\]', expected a list of finite numbers"),
        ([1.0, float("nan")], "expected a list of finite numbers, one per seed: leave out"),
        ([[1.0, 2.0]], "expected a list of finite numbers"),
        (["a"], "expected numbers"),
        (3, "values is '3', expected numbers"),
    ],
    ids=str,
)
def test_values_without_an_interval_are_named(values: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        rookery.interval(values)


def test_an_unknown_statistic_is_named() -> None:
    with pytest.raises(ConfigError, match="statistic is 'means': did you mean 'mean'"):
        rookery.interval([1.0], "means")


def test_a_run_is_plotted_agent_by_agent(study: Path) -> None:
    run = rookery.Run(study / "discount-0.0" / "seed-9")

    ax = run.plot()

    assert [line.get_label() for line in ax.lines] == ["agent 0", "agent 1"]
    assert ax.get_ylabel() == "return per agent and episode"
    returns = run.episodes().query("agent == '1'").groupby("round")["return"].mean()
    x, y = ax.lines[1].get_data()
    assert np.interp(returns.index, x, y) == pytest.approx(returns.to_numpy())
    assert len(run.plot("loss", ax=ax).lines) == 4


def test_runs_are_plotted_by_a_setting_with_a_band_over_seeds(study: Path) -> None:
    ax = rookery.plot(study, "trained", by="discount")

    assert [line.get_label() for line in ax.lines] == ["discount=0.0", "discount=0.9"]
    assert len(ax.collections) == 2
    means = rookery.table(study).groupby("discount")["trained"].mean()
    assert ax.lines[1].get_ydata()[-1] == pytest.approx(means[0.9])


def test_a_metric_or_setting_that_no_run_has_is_named(study: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no 'stags' to plot; it has .*return, rewa"):
        rookery.plot(study, "stags")
    with pytest.raises(ConfigError, match="has no setting 'discont': did you mean 'disc"):
        rookery.plot(study, by="discont")


def test_without_matplotlib_the_error_says_what_to_install(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)

    with pytest.raises(
        ConfigError, match=r"plots need matplotlib: .* 'rookery\[analysis\]'"
    ):
        rookery.plot(study)
