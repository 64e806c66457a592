"""What travels to other machines: the files that are named and what they import."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from rookery.config.run import Config
from rookery.errors import ConfigError
from rookery.sweeps.code_files import code_for, names_for

HELPERS = {
    "mine.py": "import os, helper\nfrom package.inner import deep\nimport numpy, random\n",
    "helper.py": "from second import x\n",
    "second.py": "def f():\n    import late\n",
    "late.py": "",
    "package/__init__.py": "from . import beside\n",
    "package/beside.py": "",
    "package/inner/__init__.py": "",
    "package/inner/deep.py": "from ..unused import y\n",
    "package/unused.py": "",
    "not_imported.py": "",
    "package/not_imported.py": "",
    "numpy.py": "",  # the installed one is imported, as modules here shadow nothing
    "random.py": "",
    "secret.txt": "",
}
TRAVEL = {
    "mine.py",
    "helper.py",
    "second.py",
    "late.py",
    "package/__init__.py",
    "package/beside.py",
    "package/inner/__init__.py",
    "package/inner/deep.py",
    "package/unused.py",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    inside = tmp_path / "work"
    for name, text in HELPERS.items():
        path = inside / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.chdir(inside)
    return inside


def config(game: str = "tag", **settings: object) -> Config:
    """Return settings that name code; nothing is imported."""
    return Config.model_validate({"game": {"name": game, "settings": {}}, **settings})


@pytest.mark.parametrize("name", ["./mine.py:Zap", "mine.py:Zap"])
def test_a_file_travels_with_what_it_imports_from_its_folder_each_with_its_sum(
    folder: Path, name: str
) -> None:
    files = code_for(config(name))

    assert set(files) == TRAVEL
    for path, file in files.items():
        data = (folder / path).read_bytes()
        assert (file.data, file.sha256) == (data, hashlib.sha256(data).hexdigest())


def test_files_keep_their_place_below_the_working_directory(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)

    assert set(code_for(config("work/mine.py:Zap"))) == {f"work/{x}" for x in TRAVEL}


def test_algorithms_networks_and_probes_travel_too(folder: Path) -> None:
    named = config(
        algorithm="./helper.py:Rule",
        network={"module": "./late.py:Net"},
        probe={"code": "./not_imported.py:probe"},
    )

    assert set(code_for(named)) == {"helper.py", "second.py", "late.py", "not_imported.py"}
    assert names_for(named).algorithms == ["./helper.py:Rule", "./late.py:Net"]
    assert names_for(named).probes == ["./not_imported.py:probe"]


def test_built_in_and_installed_games_need_no_files(folder: Path) -> None:
    for game in ("treasurehunt", "gymnasium:CartPole-v1", "pettingzoo:mpe2.simple_v3"):
        assert code_for(config(game)) == {}


@pytest.mark.parametrize(
    ("game", "message"),
    [
        ("../work/mine.py:Zap", "is not below the working directory"),
        ("{folder}/mine.py:Zap", "is not below the working directory"),
        ("./missing.py:Zap", "there is no file './missing.py'"),
        ("__main__:Zap", "was defined in a notebook or a script"),
    ],
)
def test_code_that_other_machines_cannot_have_is_refused(
    folder: Path, game: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        code_for(config(game.format(folder=folder)))


def test_agents_that_start_from_a_run_on_this_disk_are_refused(folder: Path) -> None:
    start = config(agents={"*": {"from": "runs/a"}})

    with pytest.raises(ConfigError, match="start from runs/a, which other machines"):
        code_for(start)
