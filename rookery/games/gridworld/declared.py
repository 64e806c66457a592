"""What the author of a grid game declares, checked when it is written down.

So an error names the line in `declare` that is wrong, rather than a line of the engine.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import numpy as np

from rookery.errors import ConfigError
from rookery.games.gridworld.names import AGENTS, MOVES, STEPS, TURNS
from rookery.games.sources import Sources

NUMERIC = "biuf"
RESERVED = (*MOVES, *STEPS, *TURNS)
CLOSE = 0.8
"""How similar to a reserved name an action must be to count as a misspelling."""


def check_kind(kind: Any) -> None:
    """Raise a `ConfigError` if a field of a Kind cannot be meant."""
    if isinstance(kind.value, bool) or not isinstance(kind.value, int | float | np.number):
        raise ConfigError(
            f"a Kind has the value {kind.value!r}, expected a number: its name is that of "
            "the attribute, self.NAME = grid.Kind(…)."
        )
    if not np.isfinite(kind.value):
        raise ConfigError(f"a Kind has the value {kind.value!r}, expected a finite number.")
    if kind.layer == AGENTS and not kind.name:  # the engine's own have a name already
        raise ConfigError(
            f"a Kind has the layer '{AGENTS}', which is reserved for the agents: choose "
            "another, such as layer='things'."
        )
    if not isinstance(kind.layer, str) or not kind.layer:
        raise ConfigError(f"a Kind has the layer {kind.layer!r}, expected a name.")
    if not isinstance(kind.char, str) or len(kind.char) > 1:
        raise ConfigError(f"a Kind has the char {kind.char!r}, expected one character.")
    if kind.lifetime is not None and not _is_whole(kind.lifetime, 1):
        raise ConfigError(
            f"a Kind has the lifetime {kind.lifetime!r}, expected a whole number of turns, "
            "at least 1, or None for a thing that stays."
        )
    if not isinstance(kind.tile, str):
        raise ConfigError(f"a Kind has the tile {kind.tile!r}, expected a name.")
    if kind.colour is not None and not _is_colour(kind.colour):
        raise ConfigError(
            f"a Kind has the colour {kind.colour!r}, expected three whole numbers from 0 "
            "to 255: (red, green, blue)."
        )


def check_window(window: Any) -> None:
    """Raise a `ConfigError` if a window has a side that is not a number of cells."""
    for name in ("radius", "ahead", "behind", "sides"):
        cells = getattr(window, name)
        if cells is not None and not _is_whole(cells, 0):
            raise ConfigError(
                f"a Window has {name}={cells!r}, expected a whole number of cells, at "
                "least 0."
            )


def check_vector(columns: tuple[Any, ...]) -> None:
    """Raise a `ConfigError` unless a Vector names its columns."""
    for column in columns:
        if not isinstance(column, str):
            raise ConfigError(
                f"a Vector shows {_kind_of(column)}, expected the name of a column: write "
                "grid.Vector('marks')."
            )


def checked_actions(actions: Any) -> Any:
    """Return a body's actions as tuples, or raise a `ConfigError`."""
    if isinstance(actions, str):
        raise ConfigError(
            f"actions is the text {actions!r}, expected a tuple of names: write "
            f"actions=({actions!r},), or (*grid.MOVES, {actions!r})."
        )
    if not isinstance(actions, tuple | list):
        raise ConfigError(
            f"actions is {_kind_of(actions)}, expected a tuple of names, such as "
            "(*grid.MOVES, 'stay')."
        )
    factors = [tuple(a) if isinstance(a, tuple | list) else a for a in actions]
    is_product = [isinstance(factor, tuple) for factor in factors]
    if any(is_product) and not all(is_product):
        raise ConfigError(
            "actions mixes names and tuples of names: write (*grid.MOVES, 'stay') for one "
            "list of actions, or (grid.MOVES, ('silent', 'talk')) for all combinations."
        )
    for factor in factors if any(is_product) else [tuple(factors)]:
        _check_names(factor)
    return tuple(factors)


def _check_names(names: tuple[Any, ...]) -> None:
    for name in names:
        if not isinstance(name, str) or not name:
            raise ConfigError(
                f"actions has {_kind_of(name)}, expected a name: write them as text, such "
                "as 'stay'."
            )
        if name not in RESERVED:
            _check_spelling(name)
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise ConfigError(f"actions has '{doubled[0]}' twice: name every action once.")


def _check_spelling(name: str) -> None:
    """Refuse an action that looks like a misspelt move, and so would move nothing."""
    plain = name.lower().replace("-", "_").replace(" ", "_")
    close = difflib.get_close_matches(plain, RESERVED, n=1, cutoff=CLOSE)
    if close:
        raise ConfigError(
            f"actions has '{name}', which moves nothing: did you mean '{close[0]}'? If "
            "not, choose a name less similar to it."
        )


def check_sees(sees: Any, looks: tuple[type, ...]) -> None:
    """Raise a `ConfigError` unless a body names what it observes."""
    if isinstance(sees, looks):
        raise ConfigError(
            f"sees is a {type(sees).__name__}, expected a dict: write "
            f"sees={{'view': grid.{type(sees).__name__}(…)}}."
        )
    if not isinstance(sees, Mapping) or not sees:
        raise ConfigError(
            f"sees is {_kind_of(sees)}, expected a dict of what it observes, such as "
            "{'view': grid.Window(2)}."
        )
    for name, look in sees.items():
        if not isinstance(look, looks) or not isinstance(name, str):
            raise ConfigError(
                f"sees has {name!r}: {_kind_of(look)}, expected a Window or a Vector by "
                "name, such as {'view': grid.Window(2)}."
            )


def check_column(column: Any) -> None:
    """Raise a `ConfigError` unless a column has a numeric dtype, a shape and a default."""
    kind = type(column).__name__
    try:
        dtype = np.dtype(column.dtype)
    except TypeError:
        raise ConfigError(
            f"a {kind} has the dtype {column.dtype!r}, expected a numpy type, such as "
            f"np.float32; a first value is written {kind}(default=…)."
        ) from None
    if dtype.kind not in NUMERIC:
        raise ConfigError(
            f"a {kind} has the dtype {dtype}, expected bools, integers or floats."
        )
    if not isinstance(column.shape, tuple) or not all(
        _is_whole(side, 1) for side in column.shape
    ):
        raise ConfigError(
            f"a {kind} has the shape {column.shape!r}, expected a tuple of whole numbers, "
            "such as (3,)."
        )
    try:
        fits = np.array(column.default).shape == () and (
            np.array(column.default).astype(dtype) == column.default
        )
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits and not (dtype.kind == "f" and isinstance(column.default, float)):
        raise ConfigError(
            f"a {kind} has the default {column.default!r}, expected one number that a "
            f"{dtype} can hold."
        )


def check_declared(name: str, value: Any, kinds: tuple[type, ...], game: type) -> None:
    """Raise a `ConfigError` for a class that was assigned instead of an object of it."""
    if isinstance(value, type) and issubclass(value, kinds):
        raise ConfigError(
            f"{Sources(game).prefix(name)}{game.__name__} sets self.{name} to the class "
            f"{value.__name__}: write self.{name} = grid.{value.__name__}()."
        )


def _is_whole(number: Any, least: int) -> bool:
    whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
    return bool(whole and number >= least)


def _is_colour(colour: Any) -> bool:
    levels = colour if isinstance(colour, tuple | list) else ()
    return len(levels) == 3 and all(_is_whole(n, 0) and n < 256 for n in levels)


def _kind_of(value: Any) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if value is None or isinstance(value, str | int | float):
        return repr(value)
    if isinstance(value, Mapping | list | tuple) and not value:
        return "empty"
    return f"a {type(value).__name__}"
