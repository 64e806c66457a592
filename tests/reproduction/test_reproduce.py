"""Reaching a result again: what passes, what fails, and when digests are compared."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import rookery
from rookery.cli.app import main
from rookery.errors import ConfigError
from rookery.reproduction import catalogue, digests
from rookery.reproduction.catalogue import find_result
from rookery.reproduction.digests import Fingerprint, expected_digest
from rookery.reproduction.reproduce import Reproduction, compare, plan_of
from rookery.stop import StopFlag
from rookery.sweeps.work import work

FEW = {"rounds": 4, "checkpoints.every_rounds": 4}


def trained(result, folder, overrides=()):
    """Train all seeds in this process, and compare."""
    plan = plan_of(result, folder, overrides)
    work(plan, StopFlag(), lambda *event, **details: None)
    return compare(result, plan, 0.0, bool(overrides))


def small(name="tiny", **changes):
    """Return a result of two very short runs."""
    result = find_result("climbing-independent")
    settings = {**result.settings, **FEW}
    return replace(result, name=name, seeds=2, settings=settings, **changes)


def reached(*values, result=None, **changes):
    result = result or find_result("climbing-hysteretic")
    machine = {"bits": "b" * 64, "torch": "1"}
    fields = {"digest": "d" * 64, "machine": machine, "expected_digest": None, **changes}
    return Reproduction(result, None, values, 1.0, **fields)


# Passing and failing.


@pytest.mark.learning
@pytest.mark.timeout(300)
def test_a_result_is_reached_and_is_not_if_its_setting_is_spoiled(tmp_path):
    whole = find_result("climbing-hysteretic")
    half = {"rounds": 600, "checkpoints.every_rounds": 600, "epsilon.steps": 4_000}
    result = replace(whole, seeds=2, settings={**whole.settings, **half})

    good = trained(result, tmp_path / "good")
    spoiled = trained(result, tmp_path / "spoiled", ["tabular.hysteresis=1"])

    assert good.passed
    assert good.reached == 1.0
    assert not spoiled.passed
    assert spoiled.reached == 0.0


@pytest.mark.parametrize(
    ("values", "passes"),
    [((1.0, 1.0), True), ((0.9, 0.9), True), ((0.9, 0.89), False), ((1.0, 1.1), False)],
)
def test_the_mean_over_seeds_has_to_be_within_the_tolerance(values, passes):
    assert reached(*values).passed == passes


def test_shares_have_wilsons_interval_and_means_a_bootstrapped_one():
    shares, means = reached(1.0, 0.0, 1.0, 1.0), reached(0.9, 0.8, 1.0)

    assert shares.interval == pytest.approx((0.3006, 0.9544), abs=1e-4)
    assert 0.8 <= means.interval.low < 0.9 < means.interval.high <= 1.0


def test_one_seed_has_no_interval():
    assert reached(1.0).interval is None


def test_what_nobody_has_confirmed_says_so():
    result = find_result("penalty-0")

    assert "250 for all independent learners; unconfirmed)" in str(
        reached(250.0, result=result)
    )


# Digests.


def test_digests_are_those_of_the_same_seeds_and_of_no_others(tmp_path):
    first = trained(small(), tmp_path / "first")
    again = trained(small(), tmp_path / "again")
    other = trained(small(), tmp_path / "other", ["tabular.rate=0.2"])

    assert first.digest == again.digest != other.digest
    assert first.machine == again.machine
    assert len(first.machine["bits"]) == 64
    assert {"torch", "numpy", "numba"} <= first.machine.keys()


def test_a_digest_is_compared_only_with_the_same_bits_and_versions(monkeypatch):
    machine = {"bits": "b", "torch": "1"}
    recorded = {
        "x": (Fingerprint("d", machine), Fingerprint("e", {**machine, "bits": "c"}))
    }
    monkeypatch.setattr(digests, "RECORDED", recorded)

    assert expected_digest("x", machine) == "d"
    assert expected_digest("x", {**machine, "bits": "c"}) == "e"
    assert expected_digest("x", {**machine, "torch": "2"}) is None
    assert expected_digest("y", machine) is None


@pytest.mark.parametrize(
    ("expected", "is_same", "text"),
    [
        ("d" * 64, True, "as recorded with the same bits and versions"),
        ("e" * 64, False, "OTHER than recorded with the same bits"),
        (None, None, "(none is recorded for bits bbbbbbbb…, torch 1)"),
    ],
)
def test_the_report_says_how_the_digest_compares(expected, is_same, text):
    report = reached(1.0, expected_digest=expected)

    assert report.is_same is is_same
    assert text in str(report)


def test_with_other_settings_there_is_no_expected_digest(tmp_path, monkeypatch):
    first = trained(small(), tmp_path / "first")
    recorded = {"tiny": (Fingerprint(first.digest, first.machine),)}
    monkeypatch.setattr(digests, "RECORDED", recorded)

    same = trained(small(), tmp_path / "same")
    changed = trained(small(), tmp_path / "changed", ["tabular.rate=0.1"])

    assert same.is_same is True
    assert changed.is_same is None


# Folders.


def test_a_folder_that_has_begun_is_continued(tmp_path):
    first = trained(small(), tmp_path / "sweep")
    plan = plan_of(small(), tmp_path / "sweep")

    again = compare(small(), plan, 0.0)

    assert (again.digest, again.values) == (first.digest, first.values)


@pytest.mark.parametrize(
    ("seeds", "overrides"), [(3, []), (2, ["tabular.rate=0.3"])], ids=["seeds", "settings"]
)
def test_a_folder_of_something_else_is_refused(tmp_path, seeds, overrides):
    plan_of(small(), tmp_path / "sweep")

    with pytest.raises(ConfigError, match="is a sweep of something else than tiny"):
        plan_of(replace(small(), seeds=seeds), tmp_path / "sweep", overrides)


# The command.


@pytest.fixture
def listed(monkeypatch):
    """Put other results in place of the named ones."""

    def put(*results):
        monkeypatch.setattr(catalogue, "CATALOGUE", results)

    return put


def run(*arguments):
    with pytest.raises(SystemExit) as left:
        main(["reproduce", *map(str, arguments)])
    return left.value.code


def test_all_results_are_listed(capsys):
    assert run("--list", "--json") == 0

    listed = json.loads(capsys.readouterr().out)["results"]
    by_name = {result["name"]: result for result in listed}
    assert len(listed) >= 10
    assert by_name["foraging-dqn"]["long"]
    assert by_name["climbing-hysteretic"]["settings"]["tabular.hysteresis"] == 0.1


def test_the_list_is_readable(capsys):
    assert run("--list") == 0

    lines = capsys.readouterr().out.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("foraging-dqn"))
    assert lines[first].endswith("long")
    assert lines[first + 1].strip().startswith("independent DQN learns")


@pytest.mark.processes
@pytest.mark.parametrize(("accepts", "code"), [((0.0, 1.0), 0), ((2.0, 3.0), 1)])
def test_the_exit_code_says_whether_it_was_reached(listed, tmp_path, capsys, accepts, code):
    listed(small(accepts=accepts))

    assert run("tiny", "--run", tmp_path / "sweep", "--json") == code

    report = json.loads(capsys.readouterr().out)
    assert report["passed"] == (code == 0)
    assert len(report["values"]) == 2
    assert report["result"]["name"] == "tiny"


def test_a_result_has_to_be_named(capsys):
    assert run() == 2

    assert "no result given: `rookery reproduce --list`" in capsys.readouterr().err


def test_a_result_is_reproduced_from_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, folder = "climbing-hysteretic", tmp_path / "again"
    result = replace(find_result(name), seeds=1)
    monkeypatch.setattr("rookery.reproduction.reproduce.find_result", lambda _: result)

    reached = rookery.reproduce(name, run=folder, rounds=2, progress=False)

    assert reached.folder == folder
    assert len(reached.values) == 1
    assert reached.expected_digest is None  # with other settings there is none
    assert rookery.Run(folder / "seed-0").config.rounds == 2
