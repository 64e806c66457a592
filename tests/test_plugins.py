"""Users' code by path: what is loaded, and how errors in it are reported."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rookery.errors import ConfigError
from rookery.plugins import load_module, load_object


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to work in; what is loaded from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def refusal(path: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_object(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_object_is_taken_from_a_file(folder: Path) -> None:
    (folder / "mine.py").write_text("class Zap:\n    range = 3\n")

    assert load_object("./mine.py:Zap").range == 3


def test_an_object_is_taken_from_a_module() -> None:
    assert load_object("pathlib:Path") is Path


def test_a_file_is_loaded_once_and_again_when_it_changed(folder: Path) -> None:
    file = folder / "mine.py"
    file.write_text("class Zap:\n    range = 3\n")
    first = load_object("mine.py:Zap")

    again = load_object(f"{file}:Zap")
    file.write_text("class Zap:\n    range = 4\n")
    changed = load_object("mine.py:Zap")

    assert again is first
    assert changed.range == 4


def test_two_files_with_the_same_name_are_two_modules(folder: Path) -> None:
    for name in ("one", "two"):
        (folder / name).mkdir()
        (folder / name / "mine.py").write_text("class Zap: pass\n")

    assert load_object("one/mine.py:Zap") is not load_object("two/mine.py:Zap")


def test_a_class_knows_its_module(folder: Path) -> None:
    (folder / "mine.py").write_text(
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "@dataclass\n"
        "class Zap:\n    range: int = 3\n"
    )

    loaded = load_object("mine.py:Zap")

    assert sys.modules[loaded.__module__].Zap is loaded


def test_a_file_can_import_the_module_beside_it(folder: Path) -> None:
    (folder / "neighbour_of_mine.py").write_text("RANGE = 5\n")
    (folder / "mine.py").write_text("from neighbour_of_mine import RANGE\n")

    assert load_object("mine.py:RANGE") == 5


def test_a_missing_file_is_named_in_full(folder: Path) -> None:
    assert refusal("./mine.py:Zap") == (
        f"There is no file 'mine.py' ({folder / 'mine.py'}): check the path, which "
        "is relative to the working directory."
    )


def test_an_unknown_name_is_answered_by_the_closest_one(folder: Path) -> None:
    (folder / "mine.py").write_text("class Zap: pass\n")

    assert refusal("mine.py:Zapp") == "'mine.py' has no 'Zapp': did you mean 'Zap'?"


def test_a_path_without_a_name_is_answered_by_how_to_write_one() -> None:
    assert refusal("./mine.py") == (
        "'./mine.py' does not say what to take from the file: write it as "
        "./file.py:name or module:name."
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\ny = x / 0\n", "(line 2): ZeroDivisionError: division by zero"),
        ("def f(:\n", "(line 1): SyntaxError: "),
        ("def f():\n    raise KeyError\nf()\n", "(line 2): KeyError"),
        ("raise ValueError('two\\nlines')\n", "(line 1): ValueError: two lines"),
        ("import nosuchthing\n", "(line 1): ModuleNotFoundError: No module named 'nos"),
    ],
)
def test_a_file_that_raises_is_reported_with_line_and_error(
    folder: Path, text: str, message: str
) -> None:
    (folder / "mine.py").write_text(text)
    before = set(sys.modules)  # other tests may have loaded a mine.py of theirs

    assert refusal("mine.py:f").startswith(f"'mine.py' could not be imported {message}")
    assert not [x for x in sys.modules.keys() - before if x.startswith("rookery_file_mine")]


def test_a_file_without_the_right_ending_is_refused(folder: Path) -> None:
    (folder / "mine.txt").write_text("x = 1\n")

    assert "is not a Python file: its name must end in .py." in refusal("./mine.txt:x")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            "nosuchthing:x",
            "There is no module 'nosuchthing': check its name, or install the package",
        ),
        ("gymnasiun:x", "There is no module 'gymnasiun': did you mean 'gymnasium'? If not"),
        ("json.decoda:x", "There is no module 'json.decoda': did you mean 'json.decoder'"),
        ("json.decoder.x:y", "There is no module 'json.decoder.x': there are none."),
        ("..:x", "could not be imported: "),
    ],
)
def test_a_missing_module_is_answered_with_advice(path: str, message: str) -> None:
    assert message in refusal(path)


def test_a_module_that_needs_another_one_is_reported_with_it(folder: Path) -> None:
    (folder / "needy.py").write_text("import nosuch.thing\n")
    sys.path.insert(0, str(folder))

    with pytest.raises(ConfigError) as caught:
        load_module("needy")

    assert str(caught.value) == (
        "The module 'needy' needs 'nosuch', which is not installed: install the package "
        "that has it."
    )


def test_a_module_that_needs_a_known_package_names_it_for_pip(folder: Path) -> None:
    (folder / "needy_of_spiel.py").write_text("import pyspiel\n")
    sys.path.insert(0, str(folder))

    with pytest.raises(ConfigError, match=r"needs 'pyspiel', .*: pip install open_spiel\."):
        load_module("needy_of_spiel")


def test_a_mistyped_word_is_never_advice_for_pip() -> None:
    for path in ("rps_v2:x", "classic.rps_v2:x", "ALE:x", "mpe3:x", "pettingzooo:x"):
        assert "pip install" not in refusal(path)
