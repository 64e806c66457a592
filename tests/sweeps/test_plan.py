"""The plan of a sweep: everything is checked before anything is written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rookery.errors import ConfigError
from rookery.stop import StopFlag
from rookery.sweeps.axes import parse_seeds, parse_words, read_question
from rookery.sweeps.cells import unlike
from rookery.sweeps.plan import SWEEP, Plan
from rookery.sweeps.planning import groups_of, named_in, new_plan
from rookery.sweeps.trust import Named
from rookery.sweeps.work import train_cell
from tests.sweeps.conftest import FIELD, planned

OWN_ALGORITHM = """
import numpy as np

class Mine:
    def __init__(self, spec, settings):
        self.table = np.zeros((1, spec.num_actions))

    def values(self, seen):
        return self.table.repeat(len(next(iter(seen.values()))), 0)

    def update(self, batch):
        return {}

    def state(self):
        return {"table": self.table}

    def load(self, state):
        self.table = state["table"]
"""
EVIL = "import pathlib; pathlib.Path('was-run').touch()\n"
PROBE = """
def probe(players, game):
    return {"one": 1.0}
"""


def folders(games: str, *words: str) -> list[str]:
    return [group.folder for group in groups_of(parse_words(games, words, [0]))]


def refused(
    folder: Path, *words: str, games: str = "iterated_chicken", seeds: str = "0"
) -> str:
    with pytest.raises(ConfigError) as error:
        planned(folder, *words, games=games, seeds=seeds)
    return str(error.value)


@pytest.mark.parametrize(
    ("games", "words", "expected"),
    [
        ("tag", [], [""]),
        ("tag", ["learning_rate=1e-4,3e-4"], ["learning_rate=1e-4", "learning_rate=3e-4"]),
        ("tag", ["replay.kind=uniform,prioritised"], ["kind=uniform", "kind=prioritised"]),
        (
            "tag",
            ["worlds=2,4", "discount:frames=0:1,1:2"],
            [
                "worlds=2,discount=0,frames=1",
                "worlds=2,discount=1,frames=2",
                "worlds=4,discount=0,frames=1",
                "worlds=4,discount=1,frames=2",
            ],
        ),
        ("tag", ['agents."*".algorithm=dqn,iqn'], ["algorithm=dqn", "algorithm=iqn"]),
        (
            "tag",
            ["algorithm=ppo,iqn", "agents.0.algorithm=dqn,vtrace"],
            [
                "algorithm=ppo,agents.0.algorithm=dqn",
                "algorithm=ppo,agents.0.algorithm=vtrace",
                "algorithm=iqn,agents.0.algorithm=dqn",
                "algorithm=iqn,agents.0.algorithm=vtrace",
            ],
        ),
        ("tag,gathering", [], ["tag", "gathering"]),
        (
            "tag,gathering",
            ["worlds=2,4"],
            ["tag,worlds=2", "tag,worlds=4", "gathering,worlds=2", "gathering,worlds=4"],
        ),
    ],
)
def test_folders_are_named_after_what_is_varied(
    games: str, words: list[str], expected: list[str]
) -> None:
    assert folders(games, *words) == expected


def test_folders_that_would_have_the_same_name_get_numbers(tmp_path: Path) -> None:
    for name in ("a/x.py", "b/x.py"):
        (tmp_path / name).parent.mkdir()
        shutil.copy(FIELD.removesuffix(":Field"), tmp_path / name)

    games = f"{tmp_path}/a/x.py:Field,{tmp_path}/b/x.py:Field"

    assert folders(games) == ["x.py:Field", "x.py:Field-2"]


def test_a_plan_has_every_cell_with_its_game_settings_seed_and_folder(
    tmp_path: Path,
) -> None:
    games = "iterated_chicken,iterated_stag_hunt"
    planned(tmp_path / "sweep", "worlds=2,4", games=games, seeds="3..4")

    plan = Plan(tmp_path / "sweep")

    assert [cell.name for cell in plan.cells] == [
        "iterated_chicken,worlds=2/seed-3",
        "iterated_chicken,worlds=4/seed-3",
        "iterated_stag_hunt,worlds=2/seed-3",
        "iterated_stag_hunt,worlds=4/seed-3",
        "iterated_chicken,worlds=2/seed-4",
        "iterated_chicken,worlds=4/seed-4",
        "iterated_stag_hunt,worlds=2/seed-4",
        "iterated_stag_hunt,worlds=4/seed-4",
    ]
    last = plan.cells[-1]
    assert last.folder == tmp_path / "sweep" / last.name
    assert (last.entry.name, last.config.worlds, last.config.seed, last.config.rounds) == (
        ("iterated_stag_hunt", 4, 4, 12)
    )


def test_cells_have_one_process_each_unless_workers_are_asked_for(tmp_path: Path) -> None:
    question = parse_words("tag", [], [0])
    assert new_plan(question, tmp_path / "a", Named()).cells[0].config.workers == 0

    question = parse_words("tag", ["workers=2"], [0])
    assert new_plan(question, tmp_path / "b", Named()).cells[0].config.workers == 2


IMPOSSIBLE = {
    "in one combination": (
        ["worlds=2,0"],
        "iterated_chicken worlds=0: worlds must be at least 1, got 0",
    ),
    "in all": (["wrlds=2"], "unknown setting 'wrlds': did you mean 'worlds'?"),
    "unknown agent": (
        ["agents.7.algorithm=dqn,iqn"],
        "iterated_chicken agents.7.algorithm=dqn: 'agents.7' matches no agent",
    ),
    "unknown algorithm": (
        ["algorithm=dqn,pppo"],
        "iterated_chicken algorithm=pppo: unknown algorithm 'pppo': did you mean 'ppo'?",
    ),
    "never learns": (
        ["algorithm=dqn", "replay.capacity=100,100000"],
        "iterated_chicken replay.capacity=100: agent '0' would never learn: ",
    ),
    "the same twice": (
        ["learning_rate=1e-4,0.0001"],
        "iterated_chicken learning_rate=0.0001 is the same as iterated_chicken "
        "learning_rate=1e-4: name each once.",
    ),
}


@pytest.mark.parametrize(("words", "expected"), IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
def test_impossible_settings_are_refused_before_anything_is_written(
    words: list[str], expected: str, tmp_path: Path
) -> None:
    assert expected in refused(tmp_path / "sweep", *words)
    assert not (tmp_path / "sweep").exists()


def test_an_unknown_game_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    message = refused(tmp_path / "sweep", games="iterated_chicken,taggg")

    assert "taggg" in message
    assert not (tmp_path / "sweep").exists()


def test_the_same_plan_in_its_folder_is_gone_on_with(tmp_path: Path) -> None:
    planned(tmp_path / "sweep", "worlds=1,2")
    before = (tmp_path / "sweep" / SWEEP).read_bytes()

    again = planned(tmp_path / "sweep", "worlds=1,2")

    assert len(again.cells) == 4
    assert (tmp_path / "sweep" / SWEEP).read_bytes() == before


@pytest.mark.parametrize("words", [["worlds=1,3"], ["worlds=1,2", "discount=0.5"], []])
def test_another_plan_in_its_folder_is_refused(words: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    planned(folder, "worlds=1,2")

    assert refused(folder, *words, games=FIELD, seeds="0..1") == (
        f"{folder} holds another sweep: choose another folder with --run, or go on with "
        f"that one: rookery sweep go {folder}"
    )


def test_any_other_folder_that_exists_is_refused(tmp_path: Path) -> None:
    assert "exists already: choose another folder with --run" in refused(tmp_path)


@pytest.mark.parametrize(
    "change", [lambda text: text.replace('"worlds', '"frames'), lambda text: text[:-9]]
)
def test_a_plan_that_was_edited_or_damaged_is_refused(
    change: object, tmp_path: Path
) -> None:
    assert callable(change)
    folder = tmp_path / "sweep"
    planned(folder, "worlds=1,2")
    file = folder / SWEEP
    file.write_text(change(file.read_text()))

    with pytest.raises(ConfigError) as error:
        Plan(folder, Named([FIELD]))

    assert str(error.value) == (
        f"{file} is not what was written when the sweep was planned: put it back, or plan "
        "the sweep again into another folder."
    )


def test_a_folder_without_a_plan_is_no_sweep(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is not a sweep: it has no sweep\.json\."):
        Plan(tmp_path)


def test_a_users_game_must_be_named_again(tmp_path: Path) -> None:
    planned(tmp_path / "sweep")

    with pytest.raises(ConfigError) as error:
        Plan(tmp_path / "sweep")
    assert str(error.value) == (
        f"{tmp_path}/sweep/sweep.json names {FIELD!r}, which is not a built-in game. If "
        f"you trust this code, add: --game {FIELD}"
    )
    with pytest.raises(ConfigError, match="If you trust this code, add: --game"):
        Plan(tmp_path / "sweep", Named(["./other.py:Field"]))

    assert len(Plan(tmp_path / "sweep", Named([FIELD])).cells) == 2


def test_of_several_users_games_each_must_be_named_again(tmp_path: Path) -> None:
    shutil.copy(FIELD.removesuffix(":Field"), tmp_path / "x.py")
    other = f"{tmp_path}/x.py:Field"
    planned(tmp_path / "sweep", games=f"{FIELD},{other},iterated_chicken", seeds="0")

    with pytest.raises(ConfigError, match=r"add: --game \S+/x\.py:Field"):
        Plan(tmp_path / "sweep", Named([FIELD]))

    assert len(Plan(tmp_path / "sweep", Named([other, FIELD])).cells) == 3


def test_a_users_algorithm_and_probe_must_be_named_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(OWN_ALGORITHM)
    Path("look.py").write_text(PROBE)
    words = ["algorithm=dqn,./mine.py:Mine", "probe.code=./look.py:probe"]
    words += ["probe.every_rounds=2", "game.turns=5"]
    question = parse_words("iterated_chicken", words, [0])
    named = named_in(question)
    assert named == Named([], ["./mine.py:Mine"], ["./look.py:probe"])
    new_plan(question, Path("sweep"), named)

    with pytest.raises(ConfigError) as error:
        Plan(Path("sweep"), Named(probes=["./look.py:probe"]))
    assert str(error.value) == (
        "sweep/sweep.json names './mine.py:Mine', which is not built in. If you trust this "
        "code, add: --algorithm ./mine.py:Mine"
    )
    with pytest.raises(ConfigError) as error:
        Plan(Path("sweep"), Named(algorithms=["./mine.py:Mine"]))
    assert str(error.value) == (
        "sweep/sweep.json names the probe './look.py:probe', which is code. If you trust "
        "it, add: --probe ./look.py:probe"
    )

    Plan(Path("sweep"), Named([], ["./mine.py:Mine"], ["./look.py:probe"]))


UNTRUSTED = {
    "game": ("games = './evil.py:Evil'", "add: --game ./evil.py:Evil"),
    "algorithm": (
        "games = 'iterated_chicken'\nsettings.algorithm = './evil.py:Evil'",
        "add: --algorithm ./evil.py:Evil",
    ),
    "algorithm of an axis": (
        "games = 'iterated_chicken'\n"
        "[[axes]]\nagents.0 = [{algorithm = 'dqn'}, {algorithm = './evil.py:Evil'}]",
        "add: --algorithm ./evil.py:Evil",
    ),
    "network": (
        "games = 'iterated_chicken'\nsettings.network.module = './evil.py:Evil'",
        "add: --algorithm ./evil.py:Evil",
    ),
    "probe": (
        "games = 'iterated_chicken'\nsettings.probe.code = './evil.py:evil'\n"
        "settings.probe.every_rounds = 1",
        "add: --probe ./evil.py:evil",
    ),
}


@pytest.mark.parametrize(("text", "remedy"), UNTRUSTED.values(), ids=UNTRUSTED.keys())
def test_code_that_only_a_plan_file_names_is_not_imported(
    text: str, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("evil.py").write_text(EVIL)
    Path("plan.toml").write_text(text)
    question = read_question(Path("plan.toml"))

    with pytest.raises(ConfigError) as error:
        new_plan(question, Path("sweep"), Named(), Path("plan.toml"))

    assert "plan.toml names " in str(error.value)
    assert str(error.value).endswith(remedy)
    assert not Path("was-run").exists()
    assert not Path("sweep").exists()


def test_after_a_change_of_a_users_file_cells_are_not_exact_and_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    game, code = "./x.py:Field", Path(FIELD.removesuffix(":Field")).read_text()
    Path("x.py").write_text(code)
    planned(Path("sweep"), games=game)
    plan = Plan(Path("sweep"), Named([game]))
    train_cell(plan, plan.cells[0], StopFlag(), lambda *told, **details: None)
    assert unlike(plan) == {}

    Path("x.py").write_text(f"{code}# changed\n")
    train_cell(plan, plan.cells[1], StopFlag(), lambda *told, **details: None)

    assert unlike(plan) == {
        "seed-1": "./x.py is not the file that the run started with, and the run is marked "
        "as not exact."
    }


def test_a_plan_of_another_version_is_refused(tmp_path: Path) -> None:
    from rookery.storage.summed_json import write_with_checksum

    write_with_checksum(tmp_path / SWEEP, {"layout": 99, "seeds": [], "groups": []})

    with pytest.raises(ConfigError, match="has layout 99, expected 1: use the version of"):
        Plan(tmp_path)


def test_a_plan_is_data(tmp_path: Path) -> None:
    plan = planned(tmp_path / "sweep", "worlds=1,2", seeds="0..2")

    content = json.loads((tmp_path / "sweep" / SWEEP).read_text())

    assert content["seeds"] == parse_seeds("0..2")
    assert [group["folder"] for group in content["groups"]] == ["worlds=1", "worlds=2"]
    assert content["groups"][0]["settings"] == {"worlds": "1"}
    assert list(content["groups"][0]["seal"]["files"]) == [FIELD.removesuffix(":Field")]
    assert [cell.config.rounds for cell in plan.cells] == [12] * 6
