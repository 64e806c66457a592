"""The one place where what a trained agent is given to act on is checked.

Outside a game, a trained agent gets its observations from the user's own code. They are
checked here as `games.guard` checks those of a game: behind it, every array has the
declared shape and dtype, and all numbers are finite. One observation or a batch of them is
accepted, as the agent's parts or, for an agent of a foreign game, as that game's own
observation. Whatever does not fit is an `ObservationError` of one line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rookery.errors import ObservationError
from rookery.games.adapters.encoding import encode
from rookery.games.base import are_finite
from rookery.games.guard import FINITE, NUMERIC
from rookery.specs import AgentSpec, Array, Encoding, Piece

Sized = tuple[Array, bool]
"""An array (n, *shape), and whether it was given without the leading axis."""


@dataclass(frozen=True)
class Batch:
    """Checked observations of one agent."""

    parts: dict[str, Array]
    """Part name to (n, *shape), as rows hold it."""
    legal: Array | None
    """(n, actions) bool; None if every action is legal."""
    is_single: bool
    """Whether it was given as one observation, without a leading axis."""
    first_action: int
    """The number of action 0 in the game that the observation is from."""

    def __len__(self) -> int:
        return len(next(iter(self.parts.values())))


class InputReader:
    """Checks and encodes the observations of one agent.

    Args:
        spec: the agent.
        label: what errors call it.
    """

    def __init__(self, spec: AgentSpec, label: str) -> None:
        self._spec, self._label = spec, label

    def read(self, observation: Any, legal: Any = None) -> Batch:
        """Return checked observations.

        Args:
            observation: part name to array; or, for an agent of a foreign game, that
                game's own observation. In a batch, arrays have a leading axis.
            legal: (actions,) or (n, actions), which actions are legal.

        Raises:
            ObservationError: if anything is not what the agent observes.
        """
        encoding = self._spec.encoding
        if encoding is None or self._holds_parts(observation, encoding):
            sized, first_action = self._read_parts(observation), 0
        else:
            sized = self._read_own(encoding, observation)
            first_action = encoding.first_action
            legal = self._own_mask(encoding, observation, legal)
        mask = self._read_legal(legal)
        labelled = {f"part '{name}'": array for name, array in sized.items()}
        is_single = self._is_single(labelled | ({} if mask is None else {"legal": mask}))
        parts = {name: array for name, (array, _) in sized.items()}
        return Batch(parts, mask and mask[0], is_single, first_action)

    # Parts, by name.

    def _holds_parts(self, observation: Any, encoding: Encoding) -> bool:
        """Whether an observation is parts by name, and not a foreign game's own."""
        keys = {piece.key for piece in encoding.pieces}
        keys |= set() if encoding.mask is None else {encoding.mask}
        if not isinstance(observation, Mapping) or keys <= observation.keys():
            return False
        return observation.keys() == self._spec.parts.keys()

    def _read_parts(self, observation: Any) -> dict[str, Sized]:
        spec = self._spec
        if not isinstance(observation, Mapping):
            raise self._error(
                f"the observation is a {type(observation).__name__}, expected a dict with "
                f"the parts {sorted(spec.parts)}",
                "pass one array per part, by name",
            )
        if observation.keys() != spec.parts.keys():
            raise self._error(
                f"the observation has the parts {sorted(map(str, observation))}, expected "
                f"{sorted(spec.parts)}",
                "pass exactly these parts, by name",
            )
        return {
            name: self._array(f"part '{name}'", observation[name], part.shape, part.dtype)
            for name, part in spec.parts.items()
        }

    # A foreign game's own observation.

    def _read_own(self, encoding: Encoding, observation: Any) -> dict[str, Sized]:
        sized = {}
        for piece in encoding.pieces:
            value = observation
            label = "the observation"
            if piece.key is not None:
                value = self._entry(encoding, observation, piece.key)
                label = f"{piece.key!r} of the observation"
            if piece.kind == "one_hot":
                values, is_single = self._numbers(label, value, piece)
            else:
                values, is_single = self._array(label, value, piece.shape, piece.dtype)
            part = self._spec.parts[piece.part]
            sized[piece.part] = encode(piece, part, values), is_single
        return sized

    def _entry(self, encoding: Encoding, observation: Any, key: str | int) -> Any:
        try:
            return observation[key]
        except (KeyError, IndexError, TypeError):
            keys = [piece.key for piece in encoding.pieces]
            keys += [] if encoding.mask is None else [encoding.mask]
            form = "tuple" if isinstance(key, int) else "dict"
            found = f"a {type(observation).__name__}"
            if isinstance(observation, Mapping):
                found = f"a dict with {sorted(map(str, observation))}"
            raise self._error(
                f"the observation is {found}, expected a {form} with {keys}",
                "pass the game's own observation",
            ) from None

    def _own_mask(self, encoding: Encoding, observation: Any, legal: Any) -> Any:
        if encoding.mask is None:
            return legal
        if legal is not None:
            raise self._error(
                f"legal was given, but the observation has '{encoding.mask}' already",
                "leave out legal",
            )
        return self._entry(encoding, observation, encoding.mask)

    def _numbers(self, label: str, value: Any, piece: Piece) -> Sized:
        """Return whole numbers in the range of a Discrete space, (n,)."""
        count = self._spec.parts[piece.part].shape[0]
        last = piece.start + count - 1
        expected = f"a whole number from {piece.start} to {last}, or (n,) of them"
        array = self._as_array(label, value)
        if array.dtype.kind not in "iu" or array.ndim > 1 or not array.size:
            found = f"{array} ({array.dtype})" if array.ndim == 0 else _form(array)
            raise self._error(
                f"{label} is {found}, expected {expected}", "pass the game's own number"
            )
        wrong = array[(array < piece.start) | (array > last)]
        if wrong.size:
            raise self._error(
                f"{label} is {wrong.flat[0]}, expected {expected}",
                "pass the game's own number",
            )
        return array.reshape(-1), array.ndim == 0

    # Arrays.

    def _as_array(self, label: str, value: Any) -> Array:
        try:
            array = np.asarray(value)
        except ValueError:  # lists of different lengths
            array = np.asarray(None)
        if array.dtype.kind not in NUMERIC:
            raise self._error(
                f"{label} is a {type(value).__name__} that is not an array of numbers",
                "pass an array",
            )
        return array

    def _array(
        self, label: str, value: Any, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> Sized:
        """Return a value as (n, *shape) of a dtype, if it is that without loss."""
        array = self._as_array(label, value)
        is_single = array.shape == shape
        if is_single:
            array = array[None]
        elif array.shape[1:] != shape or array.ndim != len(shape) + 1 or not len(array):
            batch = ", ".join(("n", *map(str, shape)))
            raise self._error(
                f"{label} is {_form(array)}, expected {shape} {dtype}, or ({batch}) for a "
                "batch of n",
                "nothing is broadcast or reshaped; pass the whole array",
            )
        return self._converted(label, array, dtype), is_single

    def _converted(self, label: str, array: Array, dtype: np.dtype[Any]) -> Array:
        """Return an array in another dtype; only floats may lose precision."""
        if array.dtype.kind == "f" and dtype.kind != "f":
            raise self._error(
                f"{label} is {array.dtype}, expected {dtype}",
                f"nothing is rounded; convert it with .astype({dtype.name!r}) if its "
                "numbers are whole",
            )
        with np.errstate(over="ignore"):  # checked below
            converted = array.astype(dtype)
        if array.dtype.kind == "f":
            infinite = array[~are_finite(converted)]
            if infinite.size:
                raise self._error(f"{label} holds {infinite[0]}", FINITE)
        elif lost := _lost(array, converted):
            raise self._error(
                f"{label} holds {lost}, which {dtype} does not have",
                f"expected {_range(dtype)}",
            )
        return converted

    def _read_legal(self, legal: Any) -> Sized | None:
        shape = (self._spec.num_actions,)
        if legal is None:
            if not self._spec.masked:
                return None
            raise self._error(
                "its game has illegal actions, and legal is missing",
                f"pass legal=, {shape} bool",
            )
        mask, is_single = self._array("legal", legal, shape, np.dtype(bool))
        stuck = ~mask.any(axis=1)
        if stuck.any():
            where = "" if is_single else f" in observation {int(stuck.argmax())}"
            raise self._error(
                f"legal has no legal action{where}",
                "at least one must be; ask the agent only when it can act",
            )
        return mask, is_single

    def _is_single(self, sized: Mapping[str, Sized]) -> bool:
        """Whether all arrays are one observation; refuse different numbers of them."""
        sizes = {(is_single, len(array)) for array, is_single in sized.values()}
        if len(sizes) > 1:
            forms = ", ".join(
                f"{label} is {'one' if is_single else f'a batch of {len(array)}'}"
                for label, (array, is_single) in sized.items()
            )
            raise self._error(
                f"the observation is not of one size: {forms}",
                "pass one observation, or a batch with the same leading axis everywhere",
            )
        ((is_single, _),) = sizes
        return is_single

    def _error(self, fault: str, remedy: str) -> ObservationError:
        return ObservationError(f"{self._label}: {fault}: {remedy}.")


def _form(array: Array) -> str:
    return f"{array.shape} {array.dtype}"


def _lost(whole: Array, converted: Array) -> str:
    """Return a whole number that another dtype does not have; '' if it has them all."""
    if converted.dtype.kind == "f":
        inexact = whole[converted != whole]
        return str(inexact[0]) if inexact.size else ""
    low, high = _limits(converted.dtype)
    # As Python's numbers: numpy would compare uint64 with int64 as floats.
    ends = [int(whole.min()), int(whole.max())] if whole.size else []
    return next((str(number) for number in ends if not low <= number <= high), "")


def _limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    if dtype.kind == "b":
        return 0, 1
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def _range(dtype: np.dtype[Any]) -> str:
    if dtype.kind == "f":
        return f"numbers that are exact in {dtype}"
    low, high = _limits(dtype)
    return f"whole numbers from {low} to {high}"
