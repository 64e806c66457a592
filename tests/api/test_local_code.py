"""Games and networks that exist only in this process, as in a notebook."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import rookery
from rookery.cli.app import main
from rookery.errors import ConfigError
from rookery.games import gridworld as grid
from rookery.games.builtin.harvest import Harvest
from rookery.local_code import name_of, source_checksum
from tests.small import HUNT

BERRIES = '''
from rookery.games import gridworld as grid


class Berries(grid.GridGame):
    """Pick berries."""

    map = """
#######
#P.*.P#
#..*..#
#######"""

    def declare(self):
        self.wall = grid.Kind(solid=True, layer="walls", char="#")
        self.berry = grid.Kind(value=1.0, layer="berries", char="*")
        self.picker = grid.Body(grid.MOVES, sees={"view": grid.Window(radius=2)})

    def act(self, world, me):
        me.move()
        me.reward += world.value(me.cell)
        world.clear(me.cell, layer="berries")
'''
SETTINGS: dict[str, Any] = {**HUNT, "game.agents": 2}


def define_game(spoil: float = 1.0) -> type[grid.GridGame]:
    """Return a class that no other process can import."""

    class Picking(grid.GridGame):
        """Pick berries."""

        map = "#####\n#P*P#\n#####"

        def declare(self) -> None:
            self.wall = grid.Kind(solid=True, layer="walls", char="#")
            self.berry = grid.Kind(value=1.0, layer="berries", char="*")
            self.picker = grid.Body(grid.MOVES, sees={"view": grid.Window(radius=2)})

        def act(self, world: grid.World, me: grid.Me) -> None:
            me.move()
            me.reward += spoil * world.value(me.cell)

    return Picking


def define_network() -> type[nn.Module]:
    class Net(nn.Module):
        def __init__(self, spec: Any, settings: Any) -> None:
            super().__init__()
            self.head = nn.LazyLinear(spec.num_actions)

        def forward(self, parts: dict[str, torch.Tensor]) -> torch.Tensor:
            return self.head(torch.cat([part.flatten(1) for part in parts.values()], 1))

    return Net


@pytest.fixture
def trained(tmp_path: Path) -> rookery.Run:
    return rookery.train(
        define_game(),
        run=tmp_path / "run",
        algorithm=define_network(),
        callback=lambda result: result.number == 4,
        **SETTINGS,
    )


def test_classes_of_this_process_are_trained_in_one_process(trained: rookery.Run) -> None:
    line = (
        "one process (workers=0): Net and Picking are defined in a notebook or a script, "
        "where workers cannot import them. Code in a file can have workers."
    )

    assert trained.config.workers == 0
    assert line in (trained.path / "events.jsonl").read_text()
    assert trained.players()["0"].act  # the run that is returned knows the classes
    assert rookery.digest(trained).exact


def test_the_line_about_one_process_is_printed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rookery.train(define_game(), run=tmp_path / "run", **SETTINGS)

    assert capfd.readouterr().err.startswith("one process (workers=0): Picking is defined")


def test_workers_are_refused_for_classes_of_this_process() -> None:
    with pytest.raises(ConfigError, match="workers is 2, but Picking is defined in a note"):
        rookery.train(define_game(), workers=2, **SETTINGS)


def test_a_run_is_resumed_and_opened_with_the_classes(
    trained: rookery.Run, tmp_path: Path
) -> None:
    game, network = define_game(), define_network()  # as if the cells were run again
    rookery.resume(trained.path, game, network)

    whole = rookery.train(game, run=tmp_path / "whole", algorithm=network, **SETTINGS)
    opened = rookery.Run(trained.path, game=game, algorithm=network)
    assert rookery.digest(opened) == rookery.digest(whole)
    assert rookery.digest(opened).exact
    assert rookery.play(game, opened.players(), game={"agents": 2, "turns": 5}).summary()


def test_without_the_classes_the_error_says_what_to_pass(trained: rookery.Run) -> None:
    with pytest.raises(ConfigError, match=r"define Picking again and pass it, as in rooke"):
        rookery.Run(trained.path).entry  # noqa: B018
    with pytest.raises(ConfigError, match=r"rookery.Run\(…, algorithm=Net\), or put it in"):
        rookery.Run(trained.path, define_game()).agents  # noqa: B018


def test_another_process_says_that_it_cannot_find_the_class(
    trained: rookery.Run,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rookery.local_code._objects", {})
    name = json.loads((trained.path / "seal.json").read_text())["settings"]["game.name"]
    with pytest.raises(SystemExit):
        main(["digest", str(trained.path), "--game", name])

    message = " ".join(capsys.readouterr().err.split())
    assert "define Picking again and pass it, or put it into a file and name it" in message


def test_a_class_that_was_put_into_a_file_continues_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(BERRIES, "<cell>", "exec"), namespace)
    run = rookery.train(
        namespace["Berries"], callback=lambda result: result.number == 2, **SETTINGS
    )
    assert run.path == Path("runs/berries-1")
    Path("berries.py").write_text(BERRIES)

    resumed = rookery.resume(run.path, game="./berries.py:Berries")

    assert repr(resumed).endswith("__main__:Berries, round 6 of 6, finished>")


def test_source_that_cannot_be_read_is_marked_as_not_exact(tmp_path: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(BERRIES, namespace)

    with pytest.warns(rookery.RookeryWarning, match="source of __main__:Berries cannot"):
        run = rookery.train(namespace["Berries"], run=tmp_path / "run", **SETTINGS)

    assert repr(rookery.digest(run)).endswith(
        "not exact: the source of __main__:Berries cannot be read, so changes of it would "
        "not be noticed, and the run is marked as not exact.>"
    )


def test_a_class_that_has_changed_is_marked_as_not_exact(trained: rookery.Run) -> None:
    class Picking(define_game()):  # type: ignore[misc]
        """Another game of the same name."""

    with pytest.warns(rookery.RookeryWarning, match="Picking is not the class that the"):
        run = rookery.resume(trained.path, Picking, define_network())

    assert not rookery.digest(run.path, Picking).exact  # type: ignore[union-attr]


def test_a_class_from_a_file_is_named_by_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "berries_in_a_file.py").write_text(BERRIES)
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    import berries_in_a_file  # type: ignore[import-not-found]

    name = name_of(berries_in_a_file.Berries)
    monkeypatch.chdir("folder")
    elsewhere = name_of(berries_in_a_file.Berries)

    del sys.modules["berries_in_a_file"]
    assert name == "./berries_in_a_file.py:Berries"
    assert elsewhere == f"{tmp_path}/berries_in_a_file.py:Berries"
    assert rookery.describe(elsewhere, game={"agents": 2}).summary == "Pick berries."


def test_a_class_of_a_package_and_a_built_in_game_keep_their_names() -> None:
    assert name_of(nn.Linear) == "torch.nn.modules.linear:Linear"
    assert rookery.describe(Harvest).game == "harvest"


def test_the_checksum_is_of_the_source() -> None:
    name = name_of(define_game())

    assert source_checksum(name) == source_checksum(name_of(define_game(spoil=2.0))) != ""
