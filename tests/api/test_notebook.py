"""Cells of a notebook, run by a real kernel."""

from __future__ import annotations

from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.small import HUNT

SETTINGS = f"import rookery\nsmall = {HUNT!r}"
TRAIN = "run = rookery.train('treasurehunt', learning_rate=0.5, **small)\nrun"
SEEDS = "runs = rookery.train('treasurehunt', seeds=range(2), **small)\nruns"
PLOT = "run.plot();"
SHOW = """
match = rookery.play("treasurehunt", run.players(), film=1, game={"turns": 5})
match.recordings[0].write_gif("match.gif")
from IPython.display import Image
Image("match.gif")
"""
CLASSES = '''
import torch
from torch import nn
from rookery.games import gridworld as grid


class Picking(grid.GridGame):
    """Pick berries."""

    map = "#####\\n#P*P#\\n#####"

    def declare(self):
        self.wall = grid.Kind(solid=True, layer="walls", char="#")
        self.berry = grid.Kind(value=1.0, layer="berries", char="*")
        self.picker = grid.Body(grid.MOVES, sees={"view": grid.Window(radius=2)})

    def act(self, world, me):
        me.move()
        me.reward += world.value(me.cell)


class Net(nn.Module):
    def __init__(self, spec, settings):
        super().__init__()
        self.head = nn.LazyLinear(spec.num_actions)

    def forward(self, parts):
        return self.head(parts["view"].flatten(1))
'''
OWN = """
stop = lambda result: result.number == 3
own = rookery.train(Picking, algorithm=Net, callback=stop, **small, **{"game.agents": 2})
own
"""
RESUME = """
rookery.resume(own.path, game=Picking, algorithm=Net, progress=False)
opened = rookery.Run(own.path, game=Picking, algorithm=Net)
print(rookery.digest(opened).exact, opened)
"""
SHOWN = "rookery.describe(Picking, game={'agents': 2})"


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run all cells in one kernel; return the outputs of each, by its source."""
    sources = [SETTINGS, TRAIN, SEEDS, PLOT, SHOW, CLASSES, OWN, RESUME, SHOWN]
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(x) for x in sources]
    )
    folder = tmp_path_factory.mktemp("notebook")
    NotebookClient(
        notebook, timeout=100, resources={"metadata": {"path": str(folder)}}
    ).execute()
    return {cell["source"]: cell["outputs"] for cell in notebook.cells}


def texts(outputs: list[Any], kind: str = "text/plain") -> list[str]:
    """Return what was displayed, and what the cell's last line gave."""
    return [output["data"][kind] for output in outputs if kind in output.get("data", {})]


def printed(outputs: list[Any]) -> str:
    """Return what was printed to both streams."""
    return "".join(
        output["text"] for output in outputs if output["output_type"] == "stream"
    )


def test_training_shows_a_bar_and_a_table_that_replace_each_other(
    cells: dict[str, Any],
) -> None:
    progress, result = texts(cells[TRAIN])

    assert " 6/6 " in progress
    assert "agent  return" in progress
    assert "<pre" in texts(cells[TRAIN], "text/html")[0]
    assert result == "<Run runs/treasurehunt-1: treasurehunt, round 6 of 6, finished>"


def test_warnings_are_shown_in_the_cell(cells: dict[str, Any]) -> None:
    assert "RookeryWarning: learning_rate 0.5 is high for Adam" in printed(cells[TRAIN])


def test_seeds_show_their_progress(cells: dict[str, Any]) -> None:
    shown = texts(cells[SEEDS])

    assert "2 of 2 done" in shown[-2]
    assert shown[-1] == "<Runs runs/treasurehunt-2: 2 seeds>"


def test_a_plot_is_shown(cells: dict[str, Any]) -> None:
    assert texts(cells[PLOT], "image/png")


def test_a_match_is_shown(cells: dict[str, Any]) -> None:
    assert texts(cells[SHOW], "image/gif")


def test_classes_from_a_cell_are_trained_in_one_process(cells: dict[str, Any]) -> None:
    *_, result = texts(cells[OWN])

    said = "".join([printed(cells[OWN]), *texts(cells[OWN])])
    assert "one process (workers=0): Net and Picking are defined in a notebook" in said
    assert result == "<Run runs/picking-1: __main__:Picking, round 3 of 6, stopped>"


def test_a_run_with_classes_from_a_cell_is_resumed_exactly(cells: dict[str, Any]) -> None:
    assert printed(cells[RESUME]) == (
        "True <Run runs/picking-1: __main__:Picking, round 6 of 6, finished>\n"
    )


def test_descriptions_are_shown_as_tables(cells: dict[str, Any]) -> None:
    (html,) = texts(cells[SHOWN], "text/html")

    assert "Pick berries." in html
