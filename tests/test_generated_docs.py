"""The generated pages of the docs are complete and up to date (`make docs`)."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import rookery
from rookery.games.gridworld.tiles import NAMES
from tests.paths import ROOT

TOOLS = ("docs", "api_page", "settings_page", "tiles_page")


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """The modules of tools/, which is not a package."""
    monkeypatch.syspath_prepend(ROOT / "tools")
    yield {name: importlib.import_module(name) for name in TOOLS}
    for name in TOOLS:
        del sys.modules[name]


def test_the_generated_pages_are_up_to_date(tools: dict[str, ModuleType]) -> None:
    assert tools["docs"].outdated() == [], "run `make docs`"


def test_a_page_that_was_edited_is_out_of_date(
    tools: dict[str, ModuleType], tmp_path: Path
) -> None:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "settings.md").write_text(tools["settings_page"].write_settings())
    (tmp_path / "tiles.md").write_text(tools["tiles_page"].write_tiles() + "edited")
    picture = tools["tiles_page"].draw_tiles()
    (tmp_path / "pictures" / "tiles.png").write_bytes(picture)

    assert tools["docs"].outdated(tmp_path) == ["api.md", "tiles.md"]


def test_every_public_name_is_in_the_reference() -> None:
    page = (ROOT / "docs" / "api.md").read_text()

    for name in rookery.__all__:
        assert f"### rookery.{name}\n" in page, name


def test_everything_that_is_published_is_documented(tools: dict[str, ModuleType]) -> None:
    assert tools["api_page"].undocumented() == []


def test_a_name_without_a_docstring_is_found(
    tools: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rookery.Run.digest, "__doc__", None)
    monkeypatch.setattr(rookery.train, "__doc__", None)

    assert tools["api_page"].undocumented() == ["rookery.Run.digest", "rookery.train"]


def test_every_method_of_a_published_class_is_in_the_reference(
    tools: dict[str, ModuleType],
) -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    engine = tools["api_page"].ENGINE

    for name in ("Run", "Match", "Recording", "TrainedAgent"):
        cls = getattr(rookery, name)
        methods = [
            method
            for method, value in vars(cls).items()
            if inspect.isfunction(value) and not method.startswith("_")
        ]
        for method in set(methods) - engine.get(name, set()):
            assert f"#### {name}.{method}\n" in page


@pytest.mark.parametrize(
    "text",
    [
        *("number: int", "world.agents[1 - me.number]", "#### World.has", "roster()"),
        *("### Vector", "legal(world: World, me: Me)", "#### World.end", "#### Me.end"),
        *("scored: bool", "score: Array", "### Observation", "active: Array"),
        *("legal: Array | None", "#### Player.forget", "**`memory`**", "role: str"),
        *("action_names: tuple[str, ...]", "num_actions: int", "colour: tuple"),
    ],
)
def test_what_a_newcomer_had_to_look_up_in_the_source_is_in_the_reference(
    text: str,
) -> None:
    assert text in (ROOT / "docs" / "api.md").read_text()


def test_the_page_of_tiles_has_every_tile() -> None:
    page = (ROOT / "docs" / "tiles.md").read_text()

    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == set(NAMES)


def test_examples_in_docstrings_of_games_are_python(tools: dict[str, ModuleType]) -> None:
    page = (ROOT / "docs" / "api.md").read_text()

    blocks = re.findall(r"^```py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)

    assert len(blocks) >= 8
    for block in blocks:
        compile(block if block[:5] != "sees=" else f"dict({block})", "api.md", "exec")
