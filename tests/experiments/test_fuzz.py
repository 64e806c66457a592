"""Bad configurations and damaged headers: a few cases of fuzz.py."""

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
        results = getattr(fuzz, f"fuzz_{kind}")(CASES, seed=1, folder=tmp_path)

    assert not results.wrong
    assert results.refused == CASES


def test_the_command_line_prints_one_line_for_each_and_exits_with_2(
    fuzz: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = fuzz.bad_overrides(random.Random(2))
    refused = 0
    while refused < 20:
        game, overrides = next(cases)
        with pytest.raises(SystemExit) as ended:
            main(["describe", game, *overrides])
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


@pytest.mark.parametrize(("case", "problem"), PLANTED.values(), ids=PLANTED)
def test_a_planted_violation_is_found(
    case: Callable[[], None], problem: str, fuzz: ModuleType
) -> None:
    results = fuzz.Results()

    with fuzz.little_memory():
        fuzz.attempt(results, "planted", case)

    assert problem in results.wrong[0]


def test_a_case_that_takes_long_is_found(
    fuzz: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fuzz, "LIMIT_SECONDS", 0.0)
    results = fuzz.Results()

    fuzz.attempt(results, "planted", lambda: sum(range(10**5)))

    assert "took" in results.wrong[0]
