"""Every way a game can break its contract gives one line: fault, place and remedy."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rookery.config.base import Settings
from rookery.errors import GameError
from rookery.games.base import Game, GameWrapper, Observations, Outcome
from rookery.games.guard import GuardedGame
from rookery.specs import AgentSpec, Part

WORLDS = 2
BOTH = (0, 1)
PARTS = {
    "self": Part((3,), np.dtype(np.float32)),
    "view": Part((1, 2, 2), np.dtype(np.uint8)),
}
ACTIONS = ("left", "right", "stay")
ANNA = AgentSpec("anna", "walker", PARTS, ACTIONS)
BEN = AgentSpec("ben", "walker", PARTS, ACTIONS)


class Puppet(Game):
    """Returns whatever a test sets."""

    def __init__(self, *agents: AgentSpec) -> None:
        super().__init__(Settings(), WORLDS, 0)
        self.agents = agents
        self.phases: Any = (BOTH,)
        self.parts: list[Any] = [parts(), parts()]
        self.active: list[Any] = [np.ones(WORLDS, bool), np.ones(WORLDS, bool)]
        self.legal: list[Any] = [None, None]
        self.rewards: Any = np.zeros((WORLDS, 2), np.float32)
        self.terminated: Any = np.zeros((WORLDS, 2), bool)
        self.truncated: Any = np.zeros((WORLDS, 2), bool)
        self.scores: Any = None
        self.counted: dict[str, Any] = {}
        self.acted: list[Any] = []
        self.closed = False

    def begin_turn(self) -> Any:
        return self.phases

    def observe(self, agents: Sequence[int]) -> Observations:
        return Observations(self.parts, self.active, self.legal)

    def act(self, agents: Sequence[int], actions: Any) -> None:
        self.acted.append((agents, actions))

    def end_turn(self) -> Outcome:
        return Outcome(
            self.rewards, self.terminated, self.truncated, self.scores, self.counted
        )

    def snapshot(self) -> dict[str, Any]:
        return {"rewards": self.rewards.copy()}

    def restore(self, arrays: Any) -> None:
        self.rewards = arrays["rewards"].copy()

    def facts(self) -> dict[str, Any]:
        return {"weather": np.zeros(WORLDS)}

    def render(self, world: int) -> Any:
        return np.full((1, 1, 3), world, np.uint8)

    def close(self) -> None:
        self.closed = True


def parts() -> dict[str, Any]:
    return {
        "self": np.zeros((WORLDS, 3), np.float32),
        "view": np.zeros((WORLDS, 1, 2, 2), np.uint8),
    }


@pytest.fixture
def puppet() -> Puppet:
    return Puppet(ANNA, BEN)


@pytest.fixture
def guarded(puppet: Puppet) -> GuardedGame:
    return GuardedGame(puppet, "puppets")


def masked_puppet() -> Puppet:
    game = Puppet(ANNA, replace(BEN, masked=True))
    game.legal[1] = np.ones((WORLDS, 3), bool)
    return game


def message(raised: pytest.ExceptionInfo[GameError]) -> str:
    """Return the message without the place, which is tested separately."""
    return re.sub(r" \(test_guard\.py, line \d+\)", "", str(raised.value))


# A game that keeps the contract passes.


def test_return_values_of_a_correct_game_are_passed_on_untouched(puppet, guarded):
    phases = guarded.begin_turn()
    observations = guarded.observe(BOTH)
    guarded.act(BOTH, np.zeros((WORLDS, 2), np.int64))
    outcome = guarded.end_turn()

    assert phases is puppet.phases
    assert observations.parts is puppet.parts
    assert puppet.acted[0][0] == BOTH
    assert outcome.rewards is puppet.rewards


def test_guarded_game_has_the_agents_settings_and_worlds_of_the_game(puppet, guarded):
    assert guarded.agents is puppet.agents
    assert guarded.settings is puppet.settings
    assert guarded.worlds == WORLDS
    assert guarded.can_snapshot


def test_facts_images_and_closing_are_passed_on(puppet, guarded):
    facts, image = guarded.facts(), guarded.render(1)
    guarded.close()

    assert list(facts) == ["weather"]
    assert image[0, 0, 0] == 1
    assert puppet.closed


# Agents.


@pytest.mark.shows("D10")
def test_game_without_agents_is_refused_before_the_first_turn():
    with pytest.raises(GameError) as raised:
        GuardedGame(Puppet(), "puppets")

    assert message(raised).startswith("game 'puppets' has the agents []: ")


@pytest.mark.shows("D10")
def test_two_agents_with_the_same_id_are_refused_before_the_first_turn():
    with pytest.raises(GameError) as raised:
        GuardedGame(Puppet(ANNA, ANNA), "puppets")

    assert message(raised) == (
        "game 'puppets' has the agents ['anna', 'anna']: declare at least one agent, each "
        "with a unique id."
    )


@pytest.mark.shows("D10")
@pytest.mark.parametrize(
    ("spec", "declared"),
    [
        (replace(BEN, parts={}), "agent 'ben' with 0 parts and 3 actions"),
        (replace(BEN, actions=()), "agent 'ben' with 2 parts and 0 actions"),
        (replace(BEN, actions=((), ACTIONS)), "agent 'ben' with 2 parts and 0 actions"),
    ],
    ids=["no parts", "no actions", "an empty product"],
)
def test_agent_without_parts_or_actions_is_refused_before_the_first_turn(spec, declared):
    with pytest.raises(GameError) as raised:
        GuardedGame(Puppet(ANNA, spec), "puppets")

    assert message(raised) == (
        f"game 'puppets' declares {declared}: declare at least one of each."
    )


@pytest.mark.shows("D10")
@pytest.mark.parametrize("dtype", ["O", "V4", "c8", "U5", "S5", "M8[s]", "m8[s]"])
def test_part_without_numbers_is_refused_before_the_first_turn(dtype):
    odd = replace(BEN, parts={**PARTS, "odd": Part((2,), np.dtype(dtype))})

    with pytest.raises(GameError) as raised:
        GuardedGame(Puppet(ANNA, odd), "puppets")

    assert message(raised) == (
        f"game 'puppets' declares part 'odd' of agent 'ben' as {np.dtype(dtype)}: declare "
        "bools, integers or floats."
    )


@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f2", "f4", "f8"])
def test_part_of_bools_or_numbers_is_accepted(dtype):
    spec = replace(BEN, parts={"self": Part((2,), np.dtype(dtype))})

    assert GuardedGame(Puppet(ANNA, spec), "puppets").agents == (ANNA, spec)


@pytest.mark.shows("D10")
@pytest.mark.parametrize("shape", [(3, 0, 5), (3, 5, 0), (0, 5, 5)], ids=str)
def test_empty_image_is_refused_before_the_first_turn(shape):
    empty = replace(BEN, parts={**PARTS, "view": Part(shape, np.dtype(np.uint8))})

    with pytest.raises(GameError) as raised:
        GuardedGame(Puppet(ANNA, empty), "puppets")

    assert message(raised) == (
        f"game 'puppets' declares part 'view' of agent 'ben' as {shape} uint8, an empty "
        "image: make every side at least 1, or omit the part."
    )


@pytest.mark.shows("D10")
def test_agent_whose_parts_are_all_empty_is_refused_before_the_first_turn():
    none = Part((0,), np.dtype(np.float32))
    blind = replace(BEN, parts={"ears": none, "eyes": none})

    with pytest.raises(GameError) as raised:
        GuardedGame(Puppet(ANNA, blind), "puppets")

    assert message(raised) == (
        "game 'puppets' declares agent 'ben' with nothing to observe: 'ears' (0,) float32, "
        "'eyes' (0,) float32: declare a part with at least one number, even if it is "
        "always 0."
    )


def test_an_empty_part_beside_another_is_accepted():
    spec = replace(BEN, parts={**PARTS, "ears": Part((0,), np.dtype(np.float32))})

    assert GuardedGame(Puppet(ANNA, spec), "puppets").agents == (ANNA, spec)


def test_agents_that_change_during_play_are_refused(puppet, guarded):
    guarded.begin_turn()
    puppet.agents = (ANNA,)

    with pytest.raises(GameError) as raised:
        guarded.begin_turn()

    assert message(raised) == (
        "game 'puppets' changed its agents during play to ['anna']: declare all agents in "
        "the constructor, and mark absent ones as not active."
    )


def test_equal_agents_in_a_new_tuple_are_not_a_change(puppet, guarded):
    puppet.agents = tuple([*puppet.agents])

    assert guarded.begin_turn() == (BOTH,)


# Phases.


@pytest.mark.parametrize(
    "phases",
    [((0, 1), (1,)), ((0,),), (), ((0, 1, 2),), ((0, 0, 1),)],
    ids=["twice", "missing", "empty", "unknown", "twice in one phase"],
)
def test_every_agent_is_in_exactly_one_phase(puppet, guarded, phases):
    puppet.phases = phases

    with pytest.raises(GameError) as raised:
        guarded.begin_turn()

    assert message(raised) == (
        f"game 'puppets' returned the phases {phases}: put every agent in exactly one "
        "phase."
    )


@pytest.mark.parametrize("phases", [(0, 1), None, ((0, "1"),)], ids=repr)
def test_phases_that_are_not_tuples_of_agents_are_a_game_error(puppet, guarded, phases):
    puppet.phases = phases

    with pytest.raises(GameError, match=r"game 'puppets' .*phase"):
        guarded.begin_turn()


# Observations.


@pytest.mark.shows("B8")
@pytest.mark.parametrize(
    ("part", "value", "actual", "expected"),
    [
        (
            "self",
            np.zeros((WORLDS, 1, 3), np.float32),
            "(2, 1, 3) float32",
            "(2, 3) float32",
        ),
        ("self", np.zeros(3, np.float32), "(3,) float32", "(2, 3) float32"),
        ("self", np.zeros((1, 3), np.float32), "(1, 3) float32", "(2, 3) float32"),
        ("self", np.zeros((WORLDS, 3)), "(2, 3) float64", "(2, 3) float32"),
        ("self", [[0.0] * 3] * WORLDS, "a list", "(2, 3) float32"),
        ("self", None, "a NoneType", "(2, 3) float32"),
        (
            "view",
            np.zeros((WORLDS, 1, 2, 2), bool),
            "(2, 1, 2, 2) bool",
            "(2, 1, 2, 2) uint8",
        ),
        (
            "view",
            np.zeros((WORLDS, 2, 2), np.uint8),
            "(2, 2, 2) uint8",
            "(2, 1, 2, 2) uint8",
        ),
    ],
    ids=[
        "(1, F) for (F,)",
        "no world axis",
        "too few worlds",
        "wrong dtype",
        "a list",
        "nothing",
        "bool for uint8",
        "a missing axis",
    ],
)
def test_part_that_is_not_as_declared_names_agent_actual_and_expected(
    puppet, guarded, part, value, actual, expected
):
    puppet.parts[1][part] = value

    with pytest.raises(GameError) as raised:
        guarded.observe(BOTH)

    assert message(raised) == (
        f"game 'puppets' gave agent 'ben' part '{part}' as {actual}, expected {expected}: "
        "the first axis is the world, the others are as declared."
    )


@pytest.mark.shows("B8")
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf], ids=str)
def test_number_that_is_not_finite_names_agent_part_and_world(puppet, guarded, number):
    puppet.parts[0]["self"][1, 2] = number

    with pytest.raises(GameError) as raised:
        guarded.observe(BOTH)

    assert message(raised) == (
        f"game 'puppets' gave agent 'anna' {number} in part 'self' of world 1: all numbers "
        "must be finite as float32 (below 3.4e38)."
    )


TOO_LARGE = 2.0**128 - 2.0**103  # the first that rounds to infinity
LARGE = np.nextafter(TOO_LARGE, 0)


def doubled(game: Puppet) -> Puppet:
    wide = {**PARTS, "self": Part((3,), np.dtype(np.float64))}
    game.agents = (replace(ANNA, parts=wide), BEN)
    game.parts[0]["self"] = game.parts[0]["self"].astype(np.float64)
    return game


@pytest.mark.shows("B8")
@pytest.mark.parametrize("number", [1e300, -TOO_LARGE, np.nan], ids=str)
def test_number_that_float32_cannot_hold_names_agent_part_world_and_number(puppet, number):
    doubled(puppet).parts[0]["self"][1, 2] = number

    with pytest.raises(GameError) as raised:
        GuardedGame(puppet, "puppets").observe(BOTH)

    assert message(raised) == (
        f"game 'puppets' gave agent 'anna' {number} in part 'self' of world 1: all numbers "
        "must be finite as float32 (below 3.4e38)."
    )


def test_the_largest_number_that_float32_holds_is_accepted(puppet):
    doubled(puppet).parts[0]["self"][1, 2] = LARGE

    GuardedGame(puppet, "puppets").observe(BOTH)

    assert np.isfinite(np.float32(LARGE))


@pytest.mark.shows("B8")
def test_missing_part_is_refused(puppet, guarded):
    del puppet.parts[1]["view"]

    with pytest.raises(GameError) as raised:
        guarded.observe(BOTH)

    assert message(raised) == (
        "game 'puppets' gave agent 'ben' the parts ['self'], expected "
        "['self', 'view']: return exactly the declared parts."
    )


@pytest.mark.shows("B8")
def test_part_that_was_never_declared_is_refused(puppet, guarded):
    puppet.parts[0]["smell"] = np.zeros((WORLDS, 1), np.float32)

    with pytest.raises(GameError) as raised:
        guarded.observe(BOTH)

    assert message(raised) == (
        "game 'puppets' gave agent 'anna' the parts ['self', 'smell', 'view'], "
        "expected ['self', 'view']: return exactly the declared parts."
    )


def test_agents_are_named_in_the_order_of_the_request(puppet, guarded):
    puppet.parts[0]["self"] = np.zeros(3, np.float32)

    with pytest.raises(GameError, match="gave agent 'ben' part 'self' as"):
        guarded.observe((1, 0))


@pytest.mark.parametrize(
    ("value", "actual"),
    [
        (np.ones(WORLDS, np.uint8), "(2,) uint8"),
        (np.ones((WORLDS, 1), bool), "(2, 1) bool"),
        (True, "a bool"),
    ],
    ids=["numbers", "an axis too many", "one for all worlds"],
)
def test_active_is_one_bool_per_world(puppet, guarded, value, actual):
    puppet.active[0] = value

    with pytest.raises(GameError) as raised:
        guarded.observe(BOTH)

    assert message(raised) == (
        f"game 'puppets' gave agent 'anna' 'active' as {actual}, expected (2,) bool: the "
        "first axis is the world, the others are as declared."
    )


@pytest.mark.parametrize("entry", ["parts", "active", "legal"])
def test_observations_of_too_few_agents_are_a_game_error(puppet, guarded, entry):
    getattr(puppet, entry).pop()

    with pytest.raises(GameError, match="game 'puppets' "):
        guarded.observe(BOTH)


def test_parts_without_names_are_a_game_error(puppet, guarded):
    puppet.parts[1] = np.zeros((WORLDS, 3), np.float32)

    with pytest.raises(GameError, match=r"game 'puppets' .*agent 'ben'"):
        guarded.observe(BOTH)


def test_observations_of_another_class_are_a_game_error(puppet, guarded, monkeypatch):
    monkeypatch.setattr(puppet, "observe", lambda agents: puppet.parts)

    with pytest.raises(GameError, match="game 'puppets' "):
        guarded.observe(BOTH)


# Legal actions.


@pytest.mark.parametrize(
    ("value", "actual"),
    [
        (np.ones((WORLDS, 2), bool), "(2, 2) bool"),
        (np.ones(3, bool), "(3,) bool"),
        (np.ones((WORLDS, 3), np.int8), "(2, 3) int8"),
        ([[True] * 3] * WORLDS, "a list"),
    ],
    ids=["too few actions", "no world axis", "numbers", "a list"],
)
def test_legal_actions_are_one_bool_per_world_and_action(value, actual):
    game = masked_puppet()
    game.legal[1] = value

    with pytest.raises(GameError) as raised:
        GuardedGame(game, "puppets").observe(BOTH)

    assert message(raised) == (
        f"game 'puppets' gave agent 'ben' legal actions as {actual}, expected (2, 3) "
        "bool: the first axis is the world, the others are as declared."
    )


def test_active_agent_without_a_legal_action_is_refused():
    game = masked_puppet()
    game.legal[1][1] = False

    with pytest.raises(GameError) as raised:
        GuardedGame(game, "puppets").observe(BOTH)

    assert message(raised) == (
        "game 'puppets' left agent 'ben' in world 1 without a legal action: an active "
        "agent needs at least one."
    )


def test_agent_that_is_not_active_needs_no_legal_action():
    game = masked_puppet()
    game.legal[1][1] = False
    game.active[1][1] = False

    observations = GuardedGame(game, "puppets").observe(BOTH)

    assert not observations.legal[1][1].any()


def test_declared_legal_actions_must_be_returned():
    game = masked_puppet()
    game.legal[1] = None

    with pytest.raises(GameError) as raised:
        GuardedGame(game, "puppets").observe(BOTH)

    assert message(raised) == (
        "game 'puppets' gave agent 'ben' no legal actions, although it is declared with "
        "masked=True: return (worlds, actions) bool."
    )


def test_legal_actions_that_were_never_declared_are_refused(puppet, guarded):
    puppet.legal[0] = np.ones((WORLDS, 3), bool)

    with pytest.raises(GameError, match="game 'puppets' gave agent 'anna' legal"):
        guarded.observe(BOTH)


# The outcome of a turn.


@pytest.mark.parametrize("name", ["reward", "score"])
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf], ids=str)
def test_reward_that_is_not_finite_names_agent_and_world(puppet, guarded, name, number):
    array = np.zeros((WORLDS, 2), np.float32)
    array[1, 0] = number
    setattr(puppet, f"{name}s", array)

    with pytest.raises(GameError) as raised:
        guarded.end_turn()

    assert message(raised) == (
        f"game 'puppets' gave agent 'anna' in world 1 a {name} of {number} in turn 0: "
        "all numbers must be finite as float32 (below 3.4e38)."
    )


@pytest.mark.parametrize("name", ["reward", "score"])
@pytest.mark.parametrize("number", [1e39, -TOO_LARGE, 1e308, np.nan], ids=str)
def test_reward_that_float32_cannot_hold_names_agent_world_and_number(
    puppet, guarded, name, number
):
    array = np.zeros((WORLDS, 2))
    array[1, 0] = number
    setattr(puppet, f"{name}s", array)

    with pytest.raises(GameError) as raised:
        guarded.end_turn()

    assert message(raised) == (
        f"game 'puppets' gave agent 'anna' in world 1 a {name} of {number} in turn 0: "
        "all numbers must be finite as float32 (below 3.4e38)."
    )


def test_the_largest_reward_that_float32_holds_is_passed_on(puppet, guarded):
    puppet.rewards = np.full((WORLDS, 2), LARGE)

    assert guarded.end_turn().rewards is puppet.rewards


@pytest.mark.parametrize("name", ["rewards", "scores"])
def test_integer_reward_is_refused(puppet, guarded, name):
    setattr(puppet, name, np.zeros((WORLDS, 2), np.int64))

    with pytest.raises(GameError) as raised:
        guarded.end_turn()

    assert message(raised) == (f"game 'puppets' returned {name} of int64: return floats.")


@pytest.mark.parametrize("name", ["rewards", "scores", "terminated", "truncated"])
@pytest.mark.parametrize(
    "shape", [(WORLDS,), (2, WORLDS, 1), (WORLDS, 3)], ids=["flat", "deep", "wide"]
)
def test_outcome_has_one_entry_per_world_and_agent(puppet, guarded, name, shape):
    setattr(puppet, name, np.zeros(shape, np.float32))

    with pytest.raises(GameError) as raised:
        guarded.end_turn()

    assert message(raised) == (
        f"game 'puppets' returned {name} of shape {shape}, expected (2, 2): return one "
        "entry per world and agent."
    )


def test_rewards_in_a_list_are_refused(puppet, guarded):
    puppet.rewards = [[0.0, 0.0], [0.0, 0.0]]

    with pytest.raises(GameError, match=r"'puppets' returned rewards .*a list, expected"):
        guarded.end_turn()


@pytest.mark.parametrize("flag", ["terminated", "truncated"])
@pytest.mark.parametrize("dtype", [np.int8, np.float32], ids=["int8", "float32"])
def test_flag_that_is_not_a_bool_is_refused(puppet, guarded, flag, dtype):
    setattr(puppet, flag, np.zeros((WORLDS, 2), dtype))

    with pytest.raises(GameError) as raised:
        guarded.end_turn()

    assert message(raised) == (
        f"game 'puppets' returned {flag} of {np.dtype(dtype)}: return bool."
    )


def test_count_that_is_not_finite_is_named(puppet):
    puppet.counts = ("zaps",)
    puppet.counted = {"zaps": np.full((WORLDS, 2), np.nan, np.float32)}

    with pytest.raises(GameError) as raised:
        GuardedGame(puppet, "puppets").end_turn()

    assert message(raised) == (
        "game 'puppets' gave agent 'anna' in world 0 a count 'zaps' of nan in turn 0: "
        "all numbers must be finite as float32 (below 3.4e38)."
    )


def test_counts_that_are_not_declared_are_refused(puppet, guarded):
    puppet.counted = {"zaps": np.zeros((WORLDS, 2), np.float32)}

    with pytest.raises(GameError) as raised:
        guarded.end_turn()

    assert message(raised) == (
        "game 'puppets' returned the counts ['zaps'], expected []: return exactly the "
        "declared counts, every turn."
    )


def test_outcome_of_another_class_is_a_game_error(puppet, guarded, monkeypatch):
    monkeypatch.setattr(puppet, "end_turn", lambda: None)

    with pytest.raises(GameError, match="game 'puppets' "):
        guarded.end_turn()


# Ends.


ENDED_TWICE = (
    "game 'puppets' ended agent 'ben' in world 1 a second time in one episode: set "
    "terminated or truncated once, and never in a closing turn."
)


@pytest.mark.parametrize("first", ["terminated", "truncated"])
@pytest.mark.parametrize("second", ["terminated", "truncated"])
def test_agent_ends_only_once_in_an_episode(puppet, guarded, first, second):
    getattr(puppet, first)[1, 1] = True
    guarded.end_turn()
    getattr(puppet, first)[1, 1] = False
    getattr(puppet, second)[1, 1] = True

    with pytest.raises(GameError) as raised:
        guarded.end_turn()

    assert message(raised) == ENDED_TWICE


def test_no_agent_ends_in_a_closing_turn(puppet, guarded):
    puppet.truncated[1] = True
    guarded.end_turn()
    puppet.truncated[1] = (False, True)

    with pytest.raises(GameError) as raised:
        guarded.end_turn()

    assert message(raised) == ENDED_TWICE


def test_agents_can_end_again_after_the_closing_turn(puppet, guarded):
    puppet.truncated[1] = True
    guarded.end_turn()
    puppet.truncated[1] = False
    guarded.end_turn()
    puppet.truncated[1] = True

    outcome = guarded.end_turn()

    assert outcome.truncated[1].all()


def test_worlds_end_independently(puppet, guarded):
    puppet.truncated[0] = True
    guarded.end_turn()
    puppet.truncated[...] = ((False, False), (True, True))

    outcome = guarded.end_turn()

    assert outcome.truncated[1].all()


@pytest.mark.parametrize("others", [True, False], ids=["closing", "others continue"])
def test_agent_that_has_ended_is_not_active(puppet, guarded, others):
    puppet.truncated[1] = (others, True)
    guarded.end_turn()
    puppet.active[0][1] = not others

    with pytest.raises(GameError, match=r"game 'puppets' .*agent 'ben' in world 1"):
        guarded.observe(BOTH)


@pytest.mark.parametrize("others", [True, False], ids=["closing", "others continue"])
def test_agent_that_has_ended_gets_no_reward(puppet, guarded, others):
    puppet.truncated[1] = (others, True)
    guarded.end_turn()
    puppet.truncated[1] = False
    puppet.rewards[1, 1] = 1

    with pytest.raises(GameError, match=r"game 'puppets' .*agent 'ben' in world 1"):
        guarded.end_turn()


def test_ended_agents_are_part_of_a_snapshot(puppet, guarded):
    puppet.terminated[1, 1] = True
    guarded.end_turn()
    other = GuardedGame(Puppet(ANNA, BEN), "puppets")
    other.restore(guarded.snapshot())
    other.game.terminated[1, 1] = True

    with pytest.raises(GameError) as raised:
        other.end_turn()

    assert message(raised) == ENDED_TWICE


@pytest.mark.parametrize(
    ("array", "found"),
    [(np.zeros(1), "(1,)"), (np.array(3), "()"), ([0, 0], "a list")],
    ids=["another length", "a number", "a list"],
)
def test_every_array_of_a_snapshot_has_one_entry_per_world(puppet, guarded, array, found):
    puppet.snapshot = lambda: {"clock": array}

    with pytest.raises(GameError) as raised:
        guarded.snapshot()

    assert message(raised) == (
        f"game 'puppets' returned 'clock' in its snapshot as {found}, expected "
        f"({WORLDS}, …): the first axis of every array is the world."
    )


def test_the_guards_part_of_a_snapshot_is_hidden_from_the_game(puppet, guarded):
    snapshot = guarded.snapshot()
    restored = []
    puppet.restore = lambda arrays: restored.extend(arrays)

    guarded.restore(snapshot)

    assert restored == ["rewards"]


@pytest.mark.parametrize("method", ["begin_turn", "observe", "act", "end_turn"])
def test_whatever_a_game_raises_is_one_line_with_file_and_line(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> None:
        raise ValueError("too\nbad")

    fail.__code__ = fail.__code__.replace(co_name=method)
    fail.__name__ = method
    puppet = Puppet(ANNA, BEN)
    monkeypatch.setattr(puppet, method, fail)
    game = GuardedGame(puppet, "puppets")
    args = {"observe": [BOTH], "act": [BOTH, np.zeros((WORLDS, 2), np.int64)]}

    pattern = (
        rf"'puppets' raised in {method}\(\): ValueError: too bad \(test_guard.py, line"
    )
    with pytest.raises(GameError, match=pattern):
        getattr(game, method)(*args.get(method, []))


def test_what_a_game_returns_wrongly_names_the_method_that_returned_it(puppet, guarded):
    puppet.rewards = [0.0]
    line = Puppet.end_turn.__code__.co_firstlineno

    with pytest.raises(
        GameError, match=rf"a list, expected .* \(test_guard.py, line {line}\)"
    ):
        guarded.end_turn()


def test_an_error_in_a_library_names_the_line_of_the_user_that_led_to_it(puppet, guarded):
    def act(agents: Any, actions: Any) -> None:
        np.zeros((-1,)).sum()

    line = act.__code__.co_firstlineno + 1
    puppet.act = act

    with pytest.raises(GameError, match=rf"ValueError: .* \(test_guard.py, line {line}\)"):
        guarded.act(BOTH, np.zeros((WORLDS, 2), np.int64))


# Wrapping.


def test_every_method_of_a_game_is_forwarded_by_a_wrapper():
    calls = []

    class Listening(GameWrapper):
        def call(self, method: Any, *args: Any) -> Any:
            calls.append(method.__name__)
            return super().call(method, *args)

    game = Listening(Puppet(ANNA, BEN))
    game.begin_round(1)
    game.begin_turn()
    game.observe(BOTH)
    game.act(BOTH, np.zeros((WORLDS, 2), np.int64))
    game.end_turn()
    game.restore(game.snapshot())
    game.facts()
    game.render(0)
    game.close()

    methods = {name for name, value in vars(Game).items() if inspect.isfunction(value)}
    assert set(calls) == methods - {"__init__"}


def test_messages_number_worlds_as_in_the_run(puppet):
    """An actor that plays a share of the worlds does not count them from 0."""
    guarded = GuardedGame(puppet, "puppets", first_world=8)
    puppet.rewards[1, 0] = np.nan
    guarded.begin_turn()

    with pytest.raises(GameError, match="in world 9 a reward of nan"):
        guarded.end_turn()
