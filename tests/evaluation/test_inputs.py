"""What a trained agent is given to act on: what is accepted, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rookery.errors import ObservationError
from rookery.evaluation.inputs import InputReader
from rookery.specs import AgentSpec, Encoding, Part, Piece, spec_from_json, spec_to_json

U8, F32, F64, I64 = map(np.dtype, (np.uint8, np.float32, np.float64, np.int64))
SPEC = AgentSpec(
    "0", "bird", {"view": Part((2, 3), U8), "speed": Part((2,), F32)}, ("left", "right")
)
VIEW, SPEED = np.ones((2, 3), np.uint8), np.zeros(2, np.float32)


def read(observation: Any, legal: Any = None, spec: AgentSpec = SPEC) -> Any:
    return InputReader(spec, "agent '0' of birds").read(observation, legal)


def refused(observation: Any, legal: Any = None, spec: AgentSpec = SPEC) -> str:
    with pytest.raises(ObservationError) as error:
        read(observation, legal, spec)
    text = str(error.value)
    assert text.startswith("agent '0' of birds: ")
    assert "\n" not in text
    return text.removeprefix("agent '0' of birds: ")


BROADCAST = "nothing is broadcast or reshaped; pass the whole array."
WRONG = {
    "a number": (
        {"view": 1},
        "part 'view' is () int64, expected (2, 3) uint8, or (n, 2, 3) for a batch of n: "
        + BROADCAST,
    ),
    "a shape that could be broadcast": (
        {"view": np.ones((1, 1), np.uint8)},
        "part 'view' is (1, 1) uint8, expected (2, 3) uint8, or (n, 2, 3) for a batch of "
        f"n: {BROADCAST}",
    ),
    "the right size in another shape": (
        {"view": np.ones((3, 2), np.uint8)},
        "part 'view' is (3, 2) uint8, expected (2, 3) uint8, or (n, 2, 3) for a batch of "
        f"n: {BROADCAST}",
    ),
    "two leading axes": (
        {"view": np.ones((1, 1, 2, 3), np.uint8)},
        "part 'view' is (1, 1, 2, 3) uint8, expected (2, 3) uint8, or (n, 2, 3) for a "
        f"batch of n: {BROADCAST}",
    ),
    "an empty batch": (
        {"view": np.ones((0, 2, 3), np.uint8)},
        "part 'view' is (0, 2, 3) uint8, expected (2, 3) uint8, or (n, 2, 3) for a batch "
        f"of n: {BROADCAST}",
    ),
    "floats for integers": (
        {"view": np.full((2, 3), 0.7)},
        "part 'view' is float64, expected uint8: nothing is rounded; convert it with "
        ".astype('uint8') if its numbers are whole.",
    ),
    "NaN for integers": (
        {"view": np.full((2, 3), np.nan)},
        "part 'view' is float64, expected uint8: nothing is rounded; convert it with "
        ".astype('uint8') if its numbers are whole.",
    ),
    "a negative number": (
        {"view": np.full((2, 3), -1)},
        "part 'view' holds -1, which uint8 does not have: expected whole numbers from 0 "
        "to 255.",
    ),
    "too large a number": (
        {"view": np.full((2, 3), 256)},
        "part 'view' holds 256, which uint8 does not have: expected whole numbers from 0 "
        "to 255.",
    ),
    "NaN": (
        {"speed": np.array([0.0, np.nan])},
        "part 'speed' holds nan: all numbers must be finite as float32 (below 3.4e38).",
    ),
    "an infinite number": (
        {"speed": np.array([0.0, -np.inf])},
        "part 'speed' holds -inf: all numbers must be finite as float32 (below 3.4e38).",
    ),
    "a number that is infinite in float32": (
        {"speed": np.array([0.0, 1e39])},
        "part 'speed' holds 1e+39: all numbers must be finite as float32 (below 3.4e38).",
    ),
    "an integer that float32 rounds": (
        {"speed": np.array([0, 2**24 + 1])},
        "part 'speed' holds 16777217, which float32 does not have: expected numbers that "
        "are exact in float32.",
    ),
    "text": (
        {"speed": ["a", "b"]},
        "part 'speed' is a list that is not an array of numbers: pass an array.",
    ),
    "lists of different lengths": (
        {"view": [[1, 2, 3], [1, 2]]},
        "part 'view' is a list that is not an array of numbers: pass an array.",
    ),
    "nothing": (
        {"speed": None},
        "part 'speed' is a NoneType that is not an array of numbers: pass an array.",
    ),
    "one and a batch": (
        {"view": VIEW[None]},
        "the observation is not of one size: part 'view' is a batch of 1, part 'speed' is "
        "one: pass one observation, or a batch with the same leading axis everywhere.",
    ),
    "batches of different sizes": (
        {"view": np.stack([VIEW] * 2), "speed": np.stack([SPEED] * 3)},
        "the observation is not of one size: part 'view' is a batch of 2, part 'speed' is "
        "a batch of 3: pass one observation, or a batch with the same leading axis "
        "everywhere.",
    ),
}


@pytest.mark.shows("B8")
@pytest.mark.parametrize(("change", "message"), WRONG.values(), ids=WRONG)
def test_a_part_that_is_not_as_declared_is_refused(
    change: dict[str, Any], message: str
) -> None:
    assert refused({"view": VIEW, "speed": SPEED} | change) == message


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        ({}, "the observation has the parts [], expected ['speed', 'view']"),
        ({"view": VIEW}, "the observation has the parts ['view'], expected ['speed', "),
        (
            {"view": VIEW, "sped": SPEED},
            "the observation has the parts ['sped', 'view'], expected ['speed', 'view']: "
            "pass exactly these parts, by name.",
        ),
        (VIEW, "the observation is a ndarray, expected a dict with the parts ['speed', "),
        (3, "the observation is a int, expected a dict with the parts ['speed', 'view']"),
    ],
)
def test_wrong_names_of_parts_are_refused(observation: Any, message: str) -> None:
    assert refused(observation).startswith(message)


def test_what_fits_without_loss_is_accepted() -> None:
    batch = read({"view": [[1, 2, 3], [0, True, 255]], "speed": np.array([0.1, 1e-50])})

    assert batch.is_single
    assert {name: array.dtype for name, array in batch.parts.items()} == {
        "view": U8,
        "speed": F32,
    }
    assert batch.parts["view"].tolist() == [[[1, 2, 3], [0, 1, 255]]]
    assert batch.parts["speed"].tolist() == [[np.float32(0.1), 0.0]]


MASKED = AgentSpec("0", "bird", {"speed": Part((2,), F32)}, ("a", "b", "c"), masked=True)


@pytest.mark.parametrize(
    ("legal", "message"),
    [
        (
            None,
            "its game has illegal actions, and legal is missing: pass legal=, (3,) bool.",
        ),
        ([1, 0], "legal is (2,) int64, expected (3,) bool, or (n, 3) for a batch of n"),
        ([0, 0, 0], "legal has no legal action: at least one must be; ask the agent only "),
        ([0, 2, 0], "legal holds 2, which bool does not have: expected whole numbers from"),
        ([0.0, 1.0, 1.0], "legal is float64, expected bool: nothing is rounded"),
        (True, "legal is () bool, expected (3,) bool"),
        (
            np.ones((1, 3), bool),
            "the observation is not of one size: part 'speed' is one, ",
        ),
    ],
)
def test_a_wrong_mask_of_legal_actions_is_refused(legal: Any, message: str) -> None:
    assert refused({"speed": SPEED}, legal, MASKED).startswith(message)


def test_the_row_of_a_batch_without_a_legal_action_is_named() -> None:
    legal = np.array([[1, 0, 0], [0, 0, 0]])

    said = refused({"speed": np.zeros((2, 2))}, legal, MASKED)

    assert said.startswith("legal has no legal action in observation 1: ")


# The own observations of foreign games.


def foreign(pieces: list[Piece], parts: dict[str, Part], mask: str | None = None) -> Any:
    encoding = Encoding(tuple(pieces), mask, first_action=5)
    spec = AgentSpec("0", "bird", parts, ("a", "b"), mask is not None, encoding)
    return spec_from_json(spec_to_json(spec))


NUMBER = foreign(
    [Piece("vector", None, "one_hot", (), I64, start=1)], {"vector": Part((4,), U8)}
)
DICT = foreign(
    [Piece("vector", "observation", "array", (2,), F64)],
    {"vector": Part((2,), F32)},
    "action_mask",
)


@pytest.mark.parametrize(
    "observation", [3, np.int8(3), np.array(3), np.array([3], np.uint8), [3]]
)
def test_a_whole_number_becomes_one_hot(observation: Any) -> None:
    batch = read(observation, spec=NUMBER)

    assert batch.parts["vector"].tolist() == [[0, 0, 1, 0]]
    assert batch.first_action == 5


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        (0, "the observation is 0, expected a whole number from 1 to 4, or (n,) of them"),
        ([1, 5], "the observation is 5, expected a whole number from 1 to 4"),
        (3.0, "the observation is 3.0 (float64), expected a whole number from 1 to 4"),
        (True, "the observation is True (bool), expected a whole number from 1 to 4"),
        ([[1]], "the observation is (1, 1) int64, expected a whole number from 1 to 4"),
        ({"vector": 3}, "part 'vector' is () int64, expected (4,) uint8, or (n, 4) for a"),
        ({"vectr": 3}, "the observation is a dict that is not an array of numbers"),
    ],
)
def test_a_wrong_number_is_refused(observation: Any, message: str) -> None:
    assert refused(observation, spec=NUMBER).startswith(message)


def test_parts_of_a_foreign_game_are_accepted_too() -> None:
    batch = read({"vector": np.array([0, 0, 1, 0])}, spec=NUMBER)

    assert batch.parts["vector"].tolist() == [[0, 0, 1, 0]]
    assert batch.first_action == 0  # as the game numbers them behind its parts


def test_parts_with_the_names_of_a_foreign_dict_are_accepted_with_legal() -> None:
    spec = foreign(
        [Piece("floor", "floor", "one_hot", (), I64)], {"floor": Part((3,), U8)}, "mask"
    )

    own = read({"floor": 2, "mask": [1, 1]}, spec=spec)
    parts = read({"floor": [0, 0, 1]}, [1, 1], spec=spec)

    assert own.parts["floor"].tolist() == parts.parts["floor"].tolist()


def test_a_mask_is_taken_from_the_observation() -> None:
    batch = read({"observation": [0.5, 1.0], "action_mask": [0, 1]}, spec=DICT)

    assert batch.legal.tolist() == [[False, True]]
    assert batch.parts["vector"].dtype == F32


@pytest.mark.parametrize(
    ("observation", "legal", "message"),
    [
        (
            {"observation": [0.5, 1.0]},
            None,
            "the observation is a dict with ['observation'], expected a dict with "
            "['observation', 'action_mask']: pass the game's own observation.",
        ),
        (
            np.zeros(2),
            None,
            "the observation is a ndarray, expected a dict with ['observation', 'action",
        ),
        (
            {"observation": [0.5, 1.0], "action_mask": [0, 1]},
            [1, 1],
            "legal was given, but the observation has 'action_mask' already: leave out",
        ),
        (
            {"observation": [0.5, 1e300], "action_mask": [0, 1]},
            None,
            "'observation' of the observation holds 1e+300: all numbers must be finite as ",
        ),
        (
            {"observation": [0.5, 1.0], "action_mask": [0, 0]},
            None,
            "legal has no legal action",
        ),
    ],
)
def test_a_wrong_foreign_observation_is_refused(
    observation: Any, legal: Any, message: str
) -> None:
    assert refused(observation, legal, DICT).startswith(message)
