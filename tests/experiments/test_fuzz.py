"""Bad configurations and damaged headers: a slice of experiments/fuzz.py."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from rookery.cli.app import main
from rookery.errors import ConfigError

CASES = 300


@pytest.fixture
def fuzz(load: Callable[[str], ModuleType]) -> ModuleType:
    return load("fuzz")


@pytest.mark.parametrize("kind", ["configurations", "headers"])
def test_bad_cases_are_refused_in_one_line_and_cost_little(
    kind: str, fuzz: ModuleType, tmp_path: Path
) -> None:
    fuzz.resolve("treasurehunt", [])
    with fuzz.little_memory():
        found = getattr(fuzz, f"fuzz_{kind}")(CASES, seed=1, folder=tmp_path)

    assert not found.wrong
    assert found.refused == CASES


def test_the_command_line_gives_code_2_and_one_line_for_each(
    fuzz: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = fuzz.bad_words(random.Random(2))
    refused = 0
    while refused < 20:
        game, several = next(words)
        with pytest.raises(SystemExit) as ended:
            main(["describe", game, *several])
        lines = capsys.readouterr().err.splitlines()
        if ended.value.code:
            assert (ended.value.code, len(lines)) == (2, 1)
            refused += 1


def raise_something_else() -> None:
    raise KeyError("x")


def raise_two_lines() -> None:
    raise ConfigError("one\ntwo")


def take_memory() -> None:
    bytearray(2**28)


PLANTED = {
    "another error": (raise_something_else, "KeyError"),
    "two lines": (raise_two_lines, "not one line"),
    "much memory": (take_memory, "MemoryError"),
}


@pytest.mark.parametrize(("case", "said"), PLANTED.values(), ids=PLANTED)
def test_what_must_not_happen_is_found(
    case: Callable[[], None], said: str, fuzz: ModuleType
) -> None:
    found = fuzz.Found()

    with fuzz.little_memory():
        fuzz.attempt(found, "planted", case)

    assert said in found.wrong[0]


def test_a_case_that_takes_long_is_found(
    fuzz: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fuzz, "LIMIT_SECONDS", 0.0)
    found = fuzz.Found()

    fuzz.attempt(found, "planted", lambda: sum(range(10**5)))

    assert "took" in found.wrong[0]
