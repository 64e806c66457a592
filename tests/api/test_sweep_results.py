"""The results of a sweep: tables, comparisons over games, figures and exports."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rookery
from rookery.errors import ConfigError, RookeryWarning
from rookery.runs.log import EPISODES, EVALUATIONS, METRICS
from rookery.stop import StopFlag
from rookery.studies.statistics import bootstrap, interquartile_mean
from rookery.sweeps.axes import Axis, Question
from rookery.sweeps.export import MARL_EVAL
from rookery.sweeps.planning import new_plan
from rookery.sweeps.trust import Named
from rookery.sweeps.work import work
from tests.small import HUNT, overrides

GAMES = ("iterated_stag_hunt", "iterated_chicken")
SETTINGS = {
    **HUNT,
    "workers": 0,
    "game.turns": 5,
    "evaluate.every_rounds": 3,
    "evaluate.episodes": 20,
}
DISCOUNTS = Axis(("discount",), (("0.0",), ("0.9",)))
SEEDS = (0, 1, 2)
WORLD_TURNS = 3 * 10
"""Of a round of these settings."""


def train(folder: Path, games: tuple[str, ...], *axes: Axis, **settings: Any) -> Path:
    fixed = tuple(overrides(SETTINGS | settings))
    plan = new_plan(Question(games, axes, SEEDS, fixed), folder, Named())
    failed = []

    def told(event: str, cell: str, **details: Any) -> None:
        failed.extend([details["line"]] if event == "failed" else [])

    work(plan, StopFlag(), told)
    assert not failed
    return folder


@pytest.fixture(scope="module")
def two_games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a finished sweep: two games, two discounts, three seeds."""
    return train(tmp_path_factory.mktemp("sweeps") / "two", GAMES, DISCOUNTS)


@pytest.fixture
def copy(two_games: Path, tmp_path: Path) -> Path:
    """Return a copy of the sweep of two games that a test may damage."""
    return Path(shutil.copytree(two_games, tmp_path / "copy"))


@pytest.fixture(scope="module")
def one_game(two_games: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a sweep of one game, without evaluations."""
    folder = tmp_path_factory.mktemp("sweeps") / "one"
    return train(folder, GAMES[:1], DISCOUNTS, **{"evaluate.every_rounds": 0})


@pytest.fixture(autouse=True)
def _no_open_figures() -> Iterator[None]:
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def cells(folder: Path, game: str, discount: float) -> list[rookery.Run]:
    return rookery.Run.seeds(folder / f"{game},discount={discount}")


def last_evaluations(folder: Path, game: str, discount: float) -> list[float]:
    """Return the mean return in the last evaluation of each seed."""
    means = []
    for run in cells(folder, game, discount):
        table = run.evaluations().query("players == 'trained' and round == 6")
        means.append(float(table["mean"].mean()))
    return means


def last_returns(folder: Path, game: str, discount: float) -> np.ndarray:
    """Return the mean return over the last quarter of the rounds of each seed."""
    runs = cells(folder, game, discount)
    return rookery.table(runs)["return"].to_numpy()


def cut(run: Path, rounds: int) -> None:
    """Leave only the first rounds of a run's logs, as if it were still running."""
    for name in (METRICS, EPISODES, EVALUATIONS):
        lines = (run / name).read_text().splitlines()
        kept = [line for line in lines if json.loads(line)["round"] <= rounds]
        (run / name).write_text("".join(f"{line}\n" for line in kept))


def test_the_table_has_one_row_per_combination_with_intervals_over_seeds(
    two_games: Path,
) -> None:
    table = rookery.Sweep(two_games).table()

    assert table["game"].tolist() == [GAMES[0]] * 2 + [GAMES[1]] * 2
    assert table["discount"].tolist() == [0.0, 0.9] * 2
    assert table["seeds"].tolist() == table["finished"].tolist() == [3] * 4
    scores = last_returns(two_games, GAMES[1], 0.9)
    row = table.iloc[3]
    assert row["return"] == pytest.approx(float(interquartile_mean(scores)))
    low_and_high = row["return_low"], row["return_high"]
    assert low_and_high == pytest.approx(tuple(bootstrap(scores)))
    assert low_and_high[0] < low_and_high[1]
    assert {"trained", "trained_low", "stag", "stag_high", "turns"} <= set(table.columns)
    assert np.isnan(row["stag"])  # nobody counts stags in chicken


def test_scores_of_several_games_are_normalised_from_random_to_scripted(
    two_games: Path,
) -> None:
    table = rookery.Sweep(two_games).table()

    files = (two_games / "references").glob("*.json")
    means = {
        x["game"]["name"]: x["means"] for x in map(json.loads, map(Path.read_text, files))
    }
    assert set(means) == set(GAMES)
    stag, chicken = (means[game] for game in GAMES)
    assert stag["cooperator"] == pytest.approx(5 * 4.0)  # 5 turns of stag for both
    assert max(chicken.values()) == pytest.approx(5 * 3.0)  # both swerve
    for game, discount, row in ((GAMES[0], 0.0, 0), (GAMES[1], 0.9, 3)):
        random, scripted = means[game]["random"], max(means[game].values())
        scores = np.array(last_evaluations(two_games, game, discount))
        expected = interquartile_mean((scores - random) / (scripted - random))
        assert table["normalised"][row] == pytest.approx(float(expected))


def test_the_scores_of_random_players_are_those_of_playing_the_game(
    two_games: Path,
) -> None:
    rookery.Sweep(two_games).table()

    (file,) = (two_games / "references").glob("iterated_chicken-*.json")
    content = json.loads(file.read_text())
    match = rookery.play(GAMES[1], episodes=2000, game={"turns": 5})
    assert content["episodes"] == 20
    spread = match.returns.mean(axis=1).std() / np.sqrt(20)
    assert content["means"]["random"] == pytest.approx(match.returns.mean(), abs=4 * spread)


def test_reference_scores_are_computed_once_and_again_if_they_are_damaged(
    copy: Path,
) -> None:
    table = rookery.Sweep(copy).table()
    files = sorted((copy / "references").iterdir())
    contents = [file.read_bytes() for file in files]
    times = [file.stat().st_mtime_ns for file in files]

    rookery.Sweep(copy).table()

    assert [file.stat().st_mtime_ns for file in files] == times
    files[0].write_bytes(contents[0].replace(b'"random": ', b'"random": 1'))
    assert rookery.Sweep(copy).table().equals(table)
    assert [file.read_bytes() for file in files] == contents


def test_a_single_game_is_not_normalised_and_nobody_plays(one_game: Path) -> None:
    table = rookery.Sweep(one_game).table()

    assert "game" not in table.columns
    assert "normalised" not in table.columns
    assert not (one_game / "references").exists()


def test_scores_of_a_game_without_scripted_players_are_not_normalised_and_it_is_said(
    tmp_path: Path,
) -> None:
    (tmp_path / "alone.py").write_text(
        "from rookery.games.builtin.matrix import IteratedChicken\n\n\n"
        "class Alone(IteratedChicken):\n"
        '    """Chicken without scripted players."""\n\n'
        "    players = {}\n"
    )
    name = f"{tmp_path / 'alone.py'}:Alone"
    fixed = tuple(overrides(SETTINGS))
    question = Question((GAMES[0], name), (), (0,), fixed)
    plan = new_plan(question, tmp_path / "sweep", Named([name]))
    work(plan, StopFlag(), lambda event, cell, **details: None)

    unnamed = str(rookery.Sweep(plan.folder))
    named = rookery.Sweep(plan.folder, game=name)

    assert "alone.py:Alone: not normalised: " in unnamed
    assert f"add: --game {name}" in unnamed
    assert "alone.py:Alone: not normalised: no scripted player" in str(named)
    normalised = named.table()["normalised"]
    assert np.isfinite(normalised[0])
    assert np.isnan(normalised[1])
    with pytest.warns(RookeryWarning, match="not normalised: no scripted player"):
        aggregate = named.aggregate()
    assert aggregate["tasks"].tolist() == [1]


def test_variants_are_aggregated_over_games(two_games: Path) -> None:
    sweep = rookery.Sweep(two_games)

    aggregate = sweep.aggregate("return")

    assert aggregate["variant"].tolist() == ["discount=0.0", "discount=0.9"]
    assert aggregate["tasks"].tolist() == [2, 2]
    assert aggregate["seeds"].tolist() == [3, 3]
    file = sweep.export(two_games.parent / "x.json", metric="return")
    values = np.ravel(json.loads(file.read_text())["scores"]["discount=0.9"])
    expected = float(interquartile_mean(values))
    assert aggregate["normalised"][1] == pytest.approx(expected)
    assert aggregate["normalised_low"][1] < expected < aggregate["normalised_high"][1]


def test_the_probability_of_improvement_is_over_seeds_and_games(two_games: Path) -> None:
    sweep = rookery.Sweep(two_games)

    estimate = sweep.improvement("discount=0.9", 0.0, metric="return")

    wins = []
    for game in GAMES:
        better = last_returns(two_games, game, 0.9)[:, None]
        worse = last_returns(two_games, game, 0.0)
        wins.append(np.mean((better > worse) + 0.5 * (better == worse)))
    assert estimate.value == pytest.approx(np.mean(wins))
    assert estimate.value != 0.5
    assert estimate.count == 3
    table = sweep.improvements("return")
    assert table["first"].tolist() == ["discount=0.0", "discount=0.9"]
    assert table["probability"].tolist() == pytest.approx(
        [1 - estimate.value, estimate.value]
    )
    with pytest.raises(ConfigError, match=r"no variant 'discount=0.8': did you mean 'disc"):
        sweep.improvement("discount=0.8", 0.0)


def test_profiles_are_the_fractions_of_runs_above_every_score(two_games: Path) -> None:
    sweep = rookery.Sweep(two_games)

    profiles = sweep.profiles("return", thresholds=[-100.0, 0.5, 100.0])

    data = sweep.export(two_games.parent / "y.json", metric="return").read_text()
    scores = np.array(json.loads(data)["scores"]["discount=0.0"])
    assert len(np.unique(scores)) > 2
    table = profiles.table()
    assert list(table.columns) == ["variant", "threshold", "fraction", "low", "high"]
    fractions = table[table["variant"] == "discount=0.0"]["fraction"]
    assert fractions.tolist() == pytest.approx([1.0, np.mean(scores > 0.5), 0.0])
    assert repr(profiles) == "<Profiles of normalised: 2 variants, 2 tasks>"
    ax = profiles.plot()
    labels = [line.get_label() for line in ax.lines[:2]]
    assert labels == ["discount=0.0 (3 seeds)", "discount=0.9 (3 seeds)"]
    assert ax.get_xlabel() == "normalised score τ"


def test_a_sweep_is_drawn_with_curves_and_the_scores_of_all_seeds(two_games: Path) -> None:
    ax = rookery.Sweep(two_games).plot()

    curves, scores, *others = ax.figure.axes
    assert curves is ax
    assert len(others) == 2  # the other game
    assert [line.get_label() for line in curves.lines] == ["0.0", "0.9"]
    assert len(curves.collections) == 2
    assert scores.get_title("left") == "discount"
    dots = [line.get_xdata() for line in scores.lines if line.get_marker() == "o"]
    runs = cells(two_games, GAMES[0], 0.0)
    expected = [rookery.table(run)["return"][0] for run in runs]
    assert dots[0] == pytest.approx(expected)


def test_what_to_draw_can_be_chosen(two_games: Path) -> None:
    from matplotlib import pyplot

    sweep = rookery.Sweep(two_games)
    _, given = pyplot.subplots()

    ax = sweep.plot("loss", game=GAMES[0])
    drawn = sweep.plot("trained", by="discount", game=GAMES[1], ax=given)

    assert [x.get_visible() for x in ax.figure.axes] == [True, False]
    assert drawn is given
    assert len(drawn.get_legend().get_texts()) == 2
    for arguments, message in (
        ({"by": "discont"}, "does not vary 'discont': did you mean 'discount'"),
        ({"game": "tag"}, "the sweep has no game 'tag': known are iterated_chicken"),
        ({"ax": given}, "ax is for one game, and the sweep has 2"),
        ({"metric": "lose"}, r"has no 'lose' to plot; it has .*loss"),
    ):
        with pytest.raises(ConfigError, match=message):
            sweep.plot(**arguments)


def test_a_sweep_that_is_not_finished_is_shown_as_far_as_it_is(copy: Path) -> None:
    cut(copy / f"{GAMES[0]},discount=0.9" / "seed-1", rounds=4)
    shutil.rmtree(copy / f"{GAMES[0]},discount=0.9" / "seed-2")
    shutil.rmtree(copy / f"{GAMES[1]},discount=0.9")

    sweep = rookery.Sweep(copy)

    table = sweep.table()
    assert table["seeds"].tolist() == [3, 2, 3, 0]
    assert table["finished"].tolist() == [3, 1, 3, 0]
    assert np.isfinite(table["trained"][:3]).all()
    assert np.isnan(table["trained"][3])
    note = "of 12 cells, 1 not finished, whose scores so far count and 4 not begun"
    assert note in str(sweep)
    with pytest.warns(RookeryWarning, match=note):
        aggregate = sweep.aggregate()
    assert aggregate["tasks"].tolist() == [1, 1]  # chicken is left out
    assert aggregate["seeds"].tolist() == [3, 2]
    curves = sweep.plot(game=GAMES[0])
    assert [x.get_label() for x in curves.lines] == ["0.0", "0.9 (2 of 3 seeds)"]
    assert len(sweep.metrics()) == (9 * 6 - 2 - 6) * 2


def test_a_running_cell_is_drawn_only_as_far_as_it_is(copy: Path) -> None:
    for seed in SEEDS:
        cut(copy / f"{GAMES[0]},discount=0.9" / f"seed-{seed}", rounds=4)

    ax = rookery.Sweep(copy).plot(game=GAMES[0])

    whole, running = (line.get_ydata() for line in ax.lines)
    assert np.isfinite(whole).all()
    assert np.isfinite(running).tolist() == [True] * 4 + [False] * 2


def test_before_any_cell_has_begun_the_table_is_empty_and_says_so(tmp_path: Path) -> None:
    question = Question(GAMES, (DISCOUNTS,), SEEDS, tuple(overrides(SETTINGS)))
    new_plan(question, tmp_path / "new", Named())

    sweep = rookery.Sweep(tmp_path / "new")

    assert repr(sweep).endswith("12 cells, 0 begun>")
    assert sweep.table()["seeds"].tolist() == [0] * 4
    assert "of 12 cells, 12 not begun" in str(sweep)
    for call in (sweep.plot, sweep.runs, sweep.aggregate, sweep.profiles):
        with pytest.raises(ConfigError, match=r"no cell of .*: let it train"):
            call()


def test_a_folder_that_is_no_sweep_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is not a sweep: it has no sweep\.json"):
        rookery.Sweep(tmp_path)


def test_rliable_gets_an_array_of_runs_and_tasks_for_every_variant(
    two_games: Path, tmp_path: Path
) -> None:
    path = rookery.Sweep(two_games).export(tmp_path / "scores.npz")

    arrays = dict(np.load(path))

    data = json.loads(rookery.Sweep(two_games).export(tmp_path / "x.json").read_text())
    assert {name: array.shape for name, array in arrays.items()} == {
        "discount=0.0": (3, 2),
        "discount=0.9": (3, 2),
    }
    assert data["metric"] == "normalised"
    assert data["tasks"] == list(GAMES)
    assert data["seeds"]["discount=0.9"] == list(SEEDS)
    for name, array in arrays.items():
        assert array.tolist() == data["scores"][name]
    rows = rookery.Sweep(two_games).table()["normalised"]
    assert float(interquartile_mean(arrays["discount=0.9"][:, 1])) == pytest.approx(rows[3])


def test_only_seeds_that_are_finished_in_all_games_are_exported_and_it_is_said(
    copy: Path, tmp_path: Path
) -> None:
    cut(copy / f"{GAMES[0]},discount=0.9" / "seed-1", rounds=4)
    sweep = rookery.Sweep(copy)

    with pytest.warns(RookeryWarning, match=r"discount=0.9: 2 of 3 seeds, the others are"):
        path = sweep.export(tmp_path / "scores.json")
    with pytest.warns(RookeryWarning, match="only the 2 seeds that all variants have"):
        marl = sweep.export(tmp_path / "marl.json", MARL_EVAL)

    assert json.loads(path.read_text())["seeds"] == {
        "discount=0.0": [0, 1, 2],
        "discount=0.9": [0, 2],
    }
    tree = json.loads(marl.read_text())["rookery"]
    assert {
        tuple(runs) for algorithms in tree.values() for runs in algorithms.values()
    } == {("seed_0", "seed_2")}


def test_marl_eval_gets_every_evaluation_of_every_run(
    two_games: Path, tmp_path: Path
) -> None:
    path = rookery.Sweep(two_games).export(tmp_path / "x.json", MARL_EVAL)

    tree = json.loads(path.read_text())["rookery"]
    assert list(tree) == list(GAMES)
    assert all(list(x) == ["discount=0.0", "discount=0.9"] for x in tree.values())
    run = tree[GAMES[1]]["discount=0.9"]["seed_2"]
    assert list(run) == ["step_1", "step_2", "absolute_metrics"]
    counts = [run["step_1"]["step_count"], run["step_2"]["step_count"]]
    assert counts == [3 * WORLD_TURNS, 6 * WORLD_TURNS]
    (value,) = run["absolute_metrics"]["return"]
    assert value == pytest.approx(last_evaluations(two_games, GAMES[1], 0.9)[2])
    assert run["step_2"]["return"] == [value]
    assert set(run["absolute_metrics"]) == {"return", "normalised"}


def test_without_evaluations_marl_eval_gets_means_over_parts_of_the_training(
    one_game: Path, tmp_path: Path
) -> None:
    path = rookery.Sweep(one_game).export(tmp_path / "x.json", MARL_EVAL)

    run = json.loads(path.read_text())["rookery"][GAMES[0]]["discount=0.0"]["seed_0"]
    assert len(run) == 6 + 1  # one for each of the few rounds, and the absolute metrics
    episodes = rookery.Run(one_game / "discount=0.0" / "seed-0").episodes()
    assert run["step_6"] == {
        "step_count": 6 * WORLD_TURNS,
        "return": [pytest.approx(episodes.query("round == 6")["return"].mean())],
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("x.npz", MARL_EVAL), r"x\.npz does not end in \.json, which marl-eval reads"),
        (("x.csv",), r"x\.csv does not end in \.npz or \.json, which rliable reads"),
        (("x.json", "rlible"), "unknown format 'rlible': did you mean 'rliable'"),
        (("x.json", "rliable", "staag"), "has no score 'staag': did you mean 'stag'"),
        (("nowhere/x.json",), "cannot write .*nowhere"),
    ],
    ids=["ending", "table", "format", "metric", "folder"],
)
def test_an_export_that_is_impossible_is_one_line(
    one_game: Path, arguments: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        rookery.Sweep(one_game).export(*arguments)
