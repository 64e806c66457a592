"""A game's settings to test with, and what may be given for them."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

from hypothesis import strategies as st
from pydantic import Field, field_validator, model_validator

from rookery.config.base import Settings
from rookery.config.parse import parse_overrides
from rookery.config.resolve import resolve
from rookery.config.run import Config
from rookery.errors import ConfigError


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Beam(Settings):
    length: int = Field(default=3, ge=1, description="Cells that a beam reaches.")


class Maze(Settings):
    """A game's settings, with every kind of value that a game may ask for."""

    agents: int = Field(default=3, ge=1, le=50, description="Who plays.")
    acting: Literal["simultaneous", "in_turn"] = Field(
        default="simultaneous", description="When agents act."
    )
    regrowth: float = Field(default=0.005, gt=0, lt=1, description="Chance per turn.")
    walls: bool = Field(default=True, description="Whether there are walls.")
    size: tuple[int, int] = Field(default=(21, 21), description="Rows and columns.")
    gems: tuple[float, ...] = Field(default=(), max_length=9, description="Values.")
    tags: frozenset[str] = Field(default=frozenset(), description="Names.")
    plan: str | None = Field(default=None, description="The map.\nA line per row.")
    colour: Colour = Field(default=Colour.RED, description="Of the agents.")
    start: datetime.date | None = Field(default=None, description="A day.")
    folder: Path = Field(default=Path("."), description="Where pictures lie.")
    sight: Literal["all"] | Annotated[int, Field(ge=0)] = Field(
        default="all", description="How far agents see."
    )
    prices: dict[str, float] = Field(default={}, description="By kind.")
    beam: Beam = Field(default=Beam(), description="The beam.")
    kinds: dict[str, Beam] = Field(default={}, description="Beams by name.")
    source: str = Field(default="", alias="from", description="A name of Python's.")

    @field_validator("size", mode="before")
    @classmethod
    def _check_before(cls, value: Any) -> Any:
        return value  # that there is such a check must not make lists unfit for tuples

    @model_validator(mode="after")
    def _room_for_all(self) -> Maze:
        if self.agents > self.size[0] * self.size[1]:
            raise ValueError(f"{self.agents} agents are more\nthan there are cells")
        return self


def resolve_overrides(*overrides: str) -> Config:
    return resolve(parse_overrides(["game.name=maze", *overrides]), Maze)


def values() -> st.SearchStrategy[Any]:
    scalars = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
    short = st.text(max_size=5)
    leaves = scalars | short | st.datetimes() | st.dates() | st.times()
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(short, inner, max_size=3)
        ),
        max_leaves=8,
    )


def answer_of(attempt: Callable[[], Config]) -> str:
    try:
        attempt()
    except ConfigError as error:
        return str(error)
    return ""
