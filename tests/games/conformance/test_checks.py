"""The conformance test: built-in games pass it, and every planted bug is named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pydantic import Field as Limits

from rookery.config.base import Settings
from rookery.errors import GameError
from rookery.games import gridworld as grid
from rookery.games import registry
from rookery.games.base import Game, Observations, Outcome
from rookery.games.conformance import checks
from rookery.games.conformance.checks import Conformance, Skipped, check_game
from rookery.games.conformance.playback import Broken, Playback, compare
from rookery.games.players import Player, RandomPlayer
from rookery.games.registry import Entry
from rookery.specs import AgentSpec, Part

GAMES = sorted(registry.entries_by_name())
SENTENCES = [
    method.__doc__.split("\n")[0]
    for name, method in vars(Conformance).items()
    if not name.startswith("_")
]
PARTS = {"total": Part((1,), np.dtype(np.float32))}


def entry_of(rules: Any) -> Entry:
    def build_grid(settings: Any, *args: int) -> Game:
        return grid.GridEngine(rules(settings), *args)

    build = rules if issubclass(rules, Game) else build_grid
    players = {"random": RandomPlayer}
    return Entry(rules.__name__.lower(), "", rules.Settings, players, build)


def conformance(rules: Any, **settings: Any) -> Conformance:
    return Conformance(entry_of(rules), rules.Settings(**settings))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check a little of everything."""
    monkeypatch.setattr(checks, "TURNS", 30)
    monkeypatch.setattr(checks, "CROWD", 4)
    monkeypatch.setattr(checks, "SEAT_WORLDS", 16)
    monkeypatch.setattr(checks, "SEAT_TURNS", 40)


# Small games with nothing wrong, for bugs to be planted in.


class Field(grid.GridGame):
    """A crowded field where gems keep turning up."""

    class Settings(grid.GridSettings):
        turns: int = 20

    map = """
    #######
    #.....#
    #.....#
    #.....#
    #######"""

    def declare(self) -> None:
        self.wall = grid.Kind(solid=True, layer="walls", char="#")
        self.gem = grid.Kind(value=1.0, layer="loot")
        self.hunter = grid.Body(grid.MOVES, sees={"view": grid.Window(1)})

    def before(self, world: grid.World) -> None:
        world.sprinkle(self.gem, chance=0.3)

    def act(self, world: grid.World, me: grid.Me) -> None:
        me.reward += world.value(me.target)
        world.clear(me.target, layer="loot")
        me.move()


class Sum(Game):
    """Two agents add to a number they both see; ten turns make an episode."""

    Settings = Settings

    def __init__(
        self, settings: Settings, worlds: int, seed: int, first_world: int = 0
    ) -> None:
        super().__init__(settings, worlds, seed, first_world)
        self.agents = tuple(
            AgentSpec(name, "adder", PARTS, ("wait", "add")) for name in ("anna", "ben")
        )
        self.total = np.zeros(worlds, np.float32)
        self.turn = np.zeros(worlds, np.int64)
        self.chosen = np.zeros((worlds, 2), np.int64)

    def begin_turn(self) -> Any:
        return ((0, 1),)

    def view(self) -> Any:
        return self.total[:, None].copy()

    def observe(self, agents: Sequence[int]) -> Observations:
        parts = [{"total": self.view()} for _ in agents]
        return Observations(parts, [self.turn < 10] * len(agents), [None] * len(agents))

    def act(self, agents: Sequence[int], actions: Any) -> None:
        self.chosen[:, list(agents)] = actions

    def rewards(self) -> Any:
        return (self.chosen * (self.turn < 10)[:, None]).astype(np.float32)

    def end_turn(self) -> Outcome:
        closing = self.turn == 10
        rewards = self.rewards()
        self.total += rewards.sum(axis=1)
        self.turn += 1
        truncated = np.repeat((self.turn == 10)[:, None], 2, axis=1)
        self.reset(closing)
        return Outcome(rewards, np.zeros_like(truncated), truncated)

    def reset(self, where: Any) -> None:
        self.total[where] = 0
        self.turn[where] = 0

    def snapshot(self) -> dict[str, Any]:
        return {"total": self.total.copy(), "turn": self.turn.copy()}

    def restore(self, arrays: Mapping[str, Any]) -> None:
        self.total[...] = arrays["total"]
        self.turn[...] = arrays["turn"]


# Correct games pass.


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", GAMES)
def test_shipped_game_passes_every_check(name):
    entry = registry.find(name)

    findings = list(check_game(entry, entry.settings(turns=15)))

    assert [finding for finding in findings if finding.result == "failed"] == []
    assert len(findings) == len(SENTENCES)


@pytest.mark.shows("H2")
@pytest.mark.parametrize("name", ["treasurehunt", "gathering"])
def test_grid_game_passes_every_check_at_full_length(name):
    entry = registry.find(name)

    findings = list(check_game(entry, entry.settings()))

    assert [finding for finding in findings if finding.result != "passed"] == []


@pytest.mark.parametrize("name", GAMES)
def test_world_of_sixteen_equals_the_same_world_alone(name, monkeypatch):
    monkeypatch.setattr(checks, "WORLDS", 16)
    monkeypatch.setattr(checks, "TURNS", 20)
    entry = registry.find(name)

    detail = Conformance(entry, entry.settings(turns=15)).keeps_worlds_apart()

    assert detail == "16 worlds of 40 turns, bit for bit"


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    "settings",
    [{"stop": 0.1}, {"history": (1, 4)}, {"stop": 0.2, "history": (3, 2)}],
    ids=str,
)
def test_matrix_game_of_any_settings_passes_every_check(settings):
    entry = registry.find("iterated_stag_hunt")

    findings = list(check_game(entry, entry.settings(turns=15, **settings)))

    assert [finding for finding in findings if finding.result == "failed"] == []


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", ["treasurehunt", "gathering"])
def test_grid_game_acting_in_turn_passes_every_check(name):
    entry = registry.find(name)
    settings = entry.settings(turns=15, acting="in_turn")

    findings = list(check_game(entry, settings))

    assert [finding for finding in findings if finding.result == "failed"] == []


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("rules", [Field, Sum])
def test_game_without_a_planted_bug_passes_every_check(rules):
    findings = list(check_game(entry_of(rules), rules.Settings()))

    assert [finding for finding in findings if finding.result == "failed"] == []


@pytest.mark.parametrize("name", ["treasurehunt", "gathering"])
def test_game_is_restored_to_the_same_arrays_and_images(name):
    entry = registry.find(name)
    playback = Playback(entry.build(entry.settings(turns=60), 2, 0), seed=5)

    def play() -> tuple[list[Any], list[Any], dict[str, Any]]:
        turns_played, images = [], []
        for turn in range(100):
            turns_played.append(playback.turn(turn))
            images.append(playback.game.render(1).tobytes())
        return turns_played, images, playback.game.snapshot()

    playback.turns(200, 230)
    snapshot = playback.game.snapshot()
    first = play()
    playback.game.restore(snapshot)
    second = play()

    for left, right in zip(first[0], second[0], strict=True):
        compare(left, right, None, "after restoring")
    assert first[1] == second[1]
    assert all(np.array_equal(first[2][name], second[2][name]) for name in first[2])


# The seats.


class FirstComesFirst(Field):
    """Resolves all moves at the end of the turn, always agent 0 first."""

    def act(self, world: grid.World, me: grid.Me) -> None:
        pass

    def after(self, world: grid.World) -> None:
        for me in world.agents:
            super().act(world, me)


class LastComesFirst(FirstComesFirst):
    """The same, from the other end."""

    def after(self, world: grid.World) -> None:
        for me in reversed(world.agents):
            Field.act(self, world, me)


class KingOfTheTurn(Field):
    """Pays the agent that acts first in a turn: only the order matters."""

    def declare(self) -> None:
        super().declare()
        self.taken = grid.PerWorld(np.bool_)

    def before(self, world: grid.World) -> None:
        world.taken = False

    def act(self, world: grid.World, me: grid.Me) -> None:
        me.reward += ~world.taken
        world.taken = True


class Bonus(Field):
    """Pays agent 0 a little more than the others."""

    def act(self, world: grid.World, me: grid.Me) -> None:
        super().act(world, me)
        me.reward += 0.2 * (me.number == 0)


class LastSeatIsBlind(Field):
    """The last agent sometimes gets nothing for its gem."""

    def act(self, world: grid.World, me: grid.Me) -> None:
        super().act(world, me)
        if me.number == len(world.agents) - 1:
            me.reward *= world.chance(0.7)


class Unlike(Sum):
    """Four agents of one role, two of which observe more; agent 0 is paid extra."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        wide = {"total": Part((2,), np.dtype(np.float32))}
        self.agents = tuple(
            AgentSpec(str(i), "adder", PARTS if i < 2 else wide, ("wait", "add"))
            for i in range(4)
        )
        self.chosen = np.zeros((self.worlds, 4), np.int64)

    def begin_turn(self) -> Any:
        return ((0, 1, 2, 3),)

    def observe(self, agents: Sequence[int]) -> Observations:
        seen = super().observe(agents)
        seen.parts = [
            {"total": np.repeat(self.view(), 1 if i < 2 else 2, axis=1)} for i in agents
        ]
        return seen

    def rewards(self) -> Any:
        rewards = super().rewards()
        rewards[:, 0] += self.turn < 10
        return rewards

    def end_turn(self) -> Outcome:
        outcome = super().end_turn()
        flags = np.repeat(outcome.truncated[:, :1], 4, axis=1)
        return Outcome(outcome.rewards, np.zeros_like(flags), flags)


@pytest.mark.shows("H2")
@pytest.mark.parametrize(
    ("rules", "seat", "sign"),
    [(Bonus, "0", "[+]"), (LastSeatIsBlind, "2", "-")],
)
def test_planted_seat_advantage_is_found(rules, seat, sign):
    message = (
        rf"^seat {seat} of 'hunter' played by random gets {sign}[\d.]+ relative to the "
        r"mean of all seats, \d+ standard errors$"
    )

    with pytest.raises(Broken, match=message):
        conformance(rules).treats_seats_equally()


@pytest.mark.shows("H2")
@pytest.mark.parametrize("rules", [FirstComesFirst, LastComesFirst])
def test_agent_that_always_acts_first_is_found(rules):
    message = r"^(seat \d of 'hunter' played by random gets|agent \d+ wins) "

    with pytest.raises(Broken, match=message):
        conformance(rules).treats_seats_equally()


@pytest.mark.shows("H2")
def test_order_that_decides_everything_but_is_fair_over_time_is_not_a_finding():
    detail = conformance(KingOfTheTurn).treats_seats_equally()

    assert detail == "400 turns in 64 worlds each with random"


@pytest.mark.shows("H2")
def test_seat_advantage_among_unlike_agents_of_one_role_is_found():
    with pytest.raises(Broken, match=r"^seat [01] of 'adder' played by random gets "):
        conformance(Unlike).treats_seats_equally()


@pytest.mark.shows("H2")
def test_seats_of_a_fair_game_are_equal():
    detail = conformance(Field).treats_seats_equally()

    assert detail == "400 turns in 64 worlds each with random"


def test_seats_are_not_compared_if_the_order_is_fixed():
    with pytest.raises(Skipped, match="order is fixed, which favours the first agent"):
        conformance(Field, order="fixed").treats_seats_equally()


def test_seats_are_not_compared_if_all_agents_differ():
    entry = registry.find("iterated_chicken")
    settings = entry.settings(history=(1, 2))

    with pytest.raises(Skipped, match="no two agents have the same role, observations"):
        Conformance(entry, settings).treats_seats_equally()


# Contests.


class BothGetIt(Field):
    """Pays everyone who aims at a gem, and takes the gem away afterwards."""

    def act(self, world: grid.World, me: grid.Me) -> None:
        me.move()

    def after(self, world: grid.World) -> None:
        for me in world.agents:
            me.reward += world.value(me.target)
        for me in world.agents:
            world.clear(me.target, layer="loot")


class BothGetItAtOnce(Field):
    """Pays as the agents act, and takes the gem away only afterwards."""

    def act(self, world: grid.World, me: grid.Me) -> None:
        me.reward += world.value(me.target)
        me.move()

    def after(self, world: grid.World) -> None:
        for me in world.agents:
            world.clear(me.target, layer="loot")


class BothGetWhatHasNoValue(BothGetItAtOnce):
    """The same, with the worth of a gem written into the rules."""

    def declare(self) -> None:
        super().declare()
        self.gem = grid.Kind(layer="loot")

    def act(self, world: grid.World, me: grid.Me) -> None:
        me.reward += 10 * world.has(self.gem, me.target)
        me.move()


class BothGetItForAPrice(BothGetItAtOnce):
    """The same, where every turn costs a little, as in many games."""

    def act(self, world: grid.World, me: grid.Me) -> None:
        super().act(world, me)
        me.reward -= 0.25


@pytest.mark.shows("H2")
@pytest.mark.parametrize(
    ("rules", "amount"),
    [
        (BothGetIt, r"1\.0"),
        (BothGetItAtOnce, r"1\.0"),
        (BothGetWhatHasNoValue, r"10\.0"),
        (BothGetItForAPrice, r"0\.75"),
    ],
)
def test_double_counted_gem_is_found(rules, amount):
    message = (
        rf"^agents \d+ and \d+ both got \[{amount}, {amount}\] for one thing in "
        r"world \d+, turn \d+$"
    )

    with pytest.raises(Broken, match=message):
        conformance(rules).gives_each_thing_once()


@pytest.mark.shows("H2")
def test_gem_that_goes_to_one_agent_is_not_a_finding():
    detail = conformance(Field).gives_each_thing_once()

    assert int(detail.removesuffix(" contests")) > 100


class Pair(Field):
    """A game for two and never more, however much room there is."""

    class Settings(Field.Settings):
        agents: int = Limits(2, ge=2, le=2)

    def after(self, world: grid.World) -> None:
        _one, _other = world.agents


@pytest.mark.shows("H2")
def test_game_for_two_agents_is_never_played_by_more():
    detail = conformance(Pair).gives_each_thing_once()

    assert int(detail.removesuffix(" contests")) > 0


def test_games_without_a_grid_have_no_contests():
    with pytest.raises(Skipped, match="only grid games have things to take"):
        conformance(Sum).gives_each_thing_once()


class Empty(Field):
    """Nothing ever turns up."""

    def before(self, world: grid.World) -> None:
        pass


def test_game_without_contests_is_skipped():
    with pytest.raises(Skipped, match="no two agents went for the same thing"):
        conformance(Empty).gives_each_thing_once()


# Worlds.


class AnyHit(Field):
    """Uses `if hit.any()` instead of `where=hit`."""

    def act(self, world: grid.World, me: grid.Me) -> None:
        hit = world.value(me.target) > 0
        super().act(world, me)
        if hit.any():
            me.reward -= 0.5


class MeanOfWorlds(Field):
    """Compares an agent with itself in the other worlds."""

    def act(self, world: grid.World, me: grid.Me) -> None:
        worth = world.value(me.target)
        super().act(world, me)
        me.reward -= worth.mean()


class FirstWorldDecides(Field):
    """Uses one world's random number for all worlds."""

    def before(self, world: grid.World) -> None:
        if world.uniform()[0] < 0.5:
            super().before(world)


class CountsWhatHappened(Sum):
    """Counts only in turns in which agent 0 added in all worlds."""

    counts = ("added",)

    def end_turn(self) -> Outcome:
        outcome = super().end_turn()
        added = outcome.rewards > 0
        outcome.counts = {"added": (added & added[:, 0].all()).astype(np.float32)}
        return outcome


@pytest.mark.parametrize("rules", [AnyHit, MeanOfWorlds])
def test_planted_leak_between_worlds_is_found_in_the_rewards(rules):
    message = r"^rewards in world \d differed in turn \d+ when played on its own$"

    with pytest.raises(Broken, match=message):
        conformance(rules).keeps_worlds_apart()


def test_planted_leak_between_worlds_is_found_in_the_observations():
    message = (
        r"^part 'view' of agent '\d' in world [1-3] differed in turn \d+ when played on "
        "its own$"
    )

    with pytest.raises(Broken, match=message):
        conformance(FirstWorldDecides).keeps_worlds_apart()


def test_metric_that_depends_on_other_worlds_is_found():
    with pytest.raises(Broken, match=r"^(count )?'?added'? .*when played on its own"):
        conformance(CountsWhatHappened).keeps_worlds_apart()


# Idle.


class NumpysGlobalStream(Field):
    """Draws from numpy's global stream."""

    def before(self, world: grid.World) -> None:
        world.fill(self.gem, np.random.random(world.layout.cells) < 0.01)


class HasItsOwnStream(Field):
    """Has a generator that no snapshot restores."""

    def declare(self) -> None:
        super().declare()
        self.stream = np.random.default_rng(0)

    def act(self, world: grid.World, me: grid.Me) -> None:
        super().act(world, me)
        me.reward += self.stream.random()


def test_game_with_numpys_global_stream_does_not_repeat_itself():
    message = (
        r"^part 'view' of agent '\d' in world \d differed in turn \d+ in a second run$"
    )

    with pytest.raises(Broken, match=message):
        conformance(NumpysGlobalStream).repeats_itself()


def test_stream_that_is_not_part_of_the_snapshot_is_found():
    message = r"^rewards in world 0 differed in turn 47 after restoring$"

    with pytest.raises(Broken, match=message):
        conformance(HasItsOwnStream).restores_exactly()


# Observations that were returned.


class SeesItsState(Sum):
    """Hands out its own state, which the turn then changes."""

    def view(self) -> Any:
        return self.total[:, None]


class ActiveIsItsState(Sum):
    """Hands out its own flags."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.playing = np.ones(self.worlds, bool)

    def observe(self, agents: Sequence[int]) -> Observations:
        seen = super().observe(agents)
        seen.active = [self.playing] * len(agents)
        return seen

    def end_turn(self) -> Outcome:
        outcome = super().end_turn()
        self.playing[...] = self.turn < 10
        return outcome


class OneBufferForBoth(Sum):
    """Lets its agents act one after the other, and shows them the same buffer."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.buffer = np.zeros((self.worlds, 1), np.float32)

    def begin_turn(self) -> Any:
        return ((0,), (1,))

    def view(self) -> Any:
        self.buffer[:, 0] = self.total
        return self.buffer

    def act(self, agents: Sequence[int], actions: Any) -> None:
        super().act(agents, actions)
        self.total += actions.sum(axis=1) * (self.turn < 10) * (agents[0] == 0) / 2


class SeesOneBuffer(Sum):
    """Reuses its buffers in every turn, which is allowed."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.buffers = np.zeros((2, self.worlds, 1), np.float32)

    def observe(self, agents: Sequence[int]) -> Observations:
        seen = super().observe(agents)
        self.buffers[...] = self.view()
        seen.parts = [{"total": self.buffers[i]} for i in agents]
        return seen


@pytest.mark.parametrize(
    ("rules", "array"),
    [
        (SeesItsState, "part 'total' of agent 'anna'"),
        (OneBufferForBoth, "part 'total' of agent 'anna'"),
        (ActiveIsItsState, "active of agent 'anna'"),
    ],
)
def test_array_that_changes_after_it_was_returned_is_found(rules, array):
    message = rf"^{array} in world \d differed in turn \d+ when read again at the end of"

    with pytest.raises(Broken, match=message):
        conformance(rules).leaves_observations_unchanged()


def test_array_can_be_reused_once_the_next_turn_begins():
    detail = conformance(SeesOneBuffer).leaves_observations_unchanged()

    assert detail == "20 turns"


# Restoring.


class SnapshotMissesTotal(Sum):
    def snapshot(self) -> dict[str, Any]:
        return {"turn": self.turn.copy()}

    def restore(self, arrays: Mapping[str, Any]) -> None:
        self.turn[...] = arrays["turn"]


class RestoreMissesTotal(Sum):
    def restore(self, arrays: Mapping[str, Any]) -> None:
        self.turn[...] = arrays["turn"]


class KeepsStateOnItself(Field):
    """Keeps gems in an array that the engine does not know, and never clears it."""

    def declare(self) -> None:
        super().declare()
        self.gems: Any = None

    def act(self, world: grid.World, me: grid.Me) -> None:
        if self.gems is None:
            self.gems = np.zeros(world.worlds, np.float32)
        self.gems += world.value(me.target)
        super().act(world, me)
        me.reward += 0.01 * self.gems


class SnapshotIsItsState(Sum):
    """Hands out its own arrays as the snapshot, which then changes with them."""

    def snapshot(self) -> dict[str, Any]:
        return {"total": self.total, "turn": self.turn}


class HiddenColumn(Sum):
    """Has a snapshot array that the same actions do not reproduce."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.age = np.zeros(self.worlds, np.int64)

    def begin_turn(self) -> Any:
        self.age += 1
        return super().begin_turn()

    def snapshot(self) -> dict[str, Any]:
        return {**super().snapshot(), "age": self.age.copy()}


@pytest.mark.parametrize(
    "rules", [SnapshotMissesTotal, RestoreMissesTotal], ids=["snapshot", "restore"]
)
def test_array_that_a_snapshot_misses_is_found(rules):
    message = (
        r"^part 'total' of agent 'anna' in world \d differed in turn 47 after restoring"
    )

    with pytest.raises(Broken, match=message):
        conformance(rules).restores_exactly()


def test_state_that_the_engine_does_not_know_is_found_by_restoring():
    message = r"^rewards in world \d differed in turn 47 after restoring$"

    with pytest.raises(Broken, match=message):
        conformance(KeepsStateOnItself).restores_exactly()


@pytest.mark.parametrize("period", [*range(2, 13), 20, 25, 50])
def test_state_that_repeats_is_found_by_restoring(period):
    class Periodic(Sum):
        count = 0

        def rewards(self) -> Any:
            self.count += 1
            return super().rewards() * (1 + self.count % period)

    with pytest.raises(
        Broken, match=r"^rewards in world \d differed in turn \d+ after rest"
    ):
        conformance(Periodic).restores_exactly()


@pytest.mark.parametrize("period", [*range(2, 13), 20, 25, 50])
def test_player_with_state_that_repeats_is_found(period):
    class Periodic(Player):
        count = 0

        def act(self, observation: Any, turn: int) -> Any:
            self.count += 1
            return np.full(self.worlds, self.count % period == 0)

    check = conformance(Sum)
    check._entry = replace(check._entry, players={"periodic": Periodic})

    with pytest.raises(Broken, match=r"memory was restored: self\.count .* self\.memory"):
        check.has_working_players()


class Failing(Player):
    """Fails in a turn of its own."""

    turn = 5

    def act(self, observation: Any, turn: int) -> Any:
        return np.full(self.worlds, 9 if turn == self.turn else 0)


class FailingLater(Failing):
    """Fails for the same reason in another turn."""

    turn = 6


class Idle(RandomPlayer):
    """Returns no actions."""

    def act(self, observation: Any, turn: int) -> Any:
        return None


def test_what_is_wrong_with_several_players_is_said_once():
    players = {"early": Failing, "late": FailingLater, "other": Idle}
    check = conformance(Sum)
    check._entry = replace(check._entry, players=players)

    with pytest.raises(Broken) as failure:
        check.has_working_players()

    text = str(failure.value)
    assert text.startswith(
        "early, late: the player of agent 'anna' chose action 9 in world"
    )
    assert "legal in the observation; other: the player of agent 'anna' returned" in text
    assert text.count("legal in the observation") == 1


def test_array_that_is_different_after_restoring_is_named():
    with pytest.raises(
        Broken, match=r"^array 'age' of the snapshot differed after restoring$"
    ):
        conformance(HiddenColumn).restores_exactly()


def test_snapshot_that_changes_with_the_game_is_found():
    with pytest.raises(Broken, match=r"'(total|turn)' of the snapshot"):
        conformance(SnapshotIsItsState).restores_exactly()


def test_game_without_snapshots_is_not_restored():
    class Fleeting(Sum):
        snapshot = Game.snapshot

    with pytest.raises(Skipped, match="the game has no snapshots"):
        conformance(Fleeting).restores_exactly()


# After a reset.


class ForgetsToClearTotal(Sum):
    def reset(self, where: Any) -> None:
        self.turn[where] = 0


class DoorStaysOpen(Sum):
    """Adding opens a door, and the next episode finds it open."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.open = np.zeros(self.worlds, bool)

    def view(self) -> Any:
        return super().view() + np.float32(100) * self.open[:, None]

    def rewards(self) -> Any:
        self.open |= self.chosen.any(axis=1)
        return super().rewards()

    def snapshot(self) -> dict[str, Any]:
        return {**super().snapshot(), "open": self.open.copy()}

    def restore(self, arrays: Mapping[str, Any]) -> None:
        super().restore(arrays)
        self.open[...] = arrays["open"]


@pytest.mark.shows("D11")
def test_array_that_a_reset_does_not_clear_is_found():
    message = (
        r"^part 'total' of agent 'anna' in world 0 differed in turn 0 after a different "
        "first episode$"
    )

    with pytest.raises(Broken, match=message):
        conformance(ForgetsToClearTotal).resets_completely()


@pytest.mark.shows("D11")
def test_column_that_was_never_declared_and_so_is_not_reset_is_found():
    message = r"^rewards in world 0 differed in turn 0 after a different first episode$"

    with pytest.raises(Broken, match=message):
        conformance(KeepsStateOnItself).resets_completely()


@pytest.mark.shows("D11")
def test_flag_that_every_random_episode_sets_and_no_reset_clears_is_found():
    message = (
        r"^part 'total' of agent 'anna' in world 0 differed in turn \d+ after a different "
        "first episode$"
    )

    with pytest.raises(Broken, match=message):
        conformance(DoorStaysOpen).resets_completely()


@pytest.mark.shows("D11")
@pytest.mark.parametrize("name", GAMES)
def test_nothing_of_the_old_episode_remains_in_a_shipped_game(name):
    entry = registry.find(name)

    detail = Conformance(entry, entry.settings(turns=30)).resets_completely()

    assert detail.startswith("100 turns ")


# The contract.


class OneAxisTooMany(Sum):
    def view(self) -> Any:
        return super().view()[:, None]


class Late(Sum):
    """Breaks its contract only in its second episode."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.episode = 0

    def reset(self, where: Any) -> None:
        super().reset(where)
        self.episode += bool(where[0])

    def rewards(self) -> Any:
        return super().rewards() + (np.nan if self.episode else 0)


def test_part_of_another_shape_breaks_the_contract():
    with pytest.raises(GameError) as raised:
        conformance(OneAxisTooMany).keeps_its_contract()

    line = Sum.observe.__code__.co_firstlineno
    assert str(raised.value) == (
        "game 'oneaxistoomany' gave agent 'anna' part 'total' as (4, 1, 1) float32, "
        f"expected (4, 1) float32 (test_checks.py, line {line}): the first axis is the "
        "world, the others are as declared."
    )


def test_contract_is_checked_beyond_the_first_episode():
    with pytest.raises(GameError, match=r"gave agent 'anna' in world \d a reward of nan"):
        conformance(Late).keeps_its_contract()


# All checks of a game.


@pytest.mark.usefixtures("quick")
def test_failing_check_does_not_stop_the_others():
    findings = list(check_game(entry_of(KeepsStateOnItself), Field.Settings()))

    failed = {f.sentence: f.detail for f in findings if f.result == "failed"}
    assert {finding.sentence for finding in findings} >= set(SENTENCES)
    assert (
        "self.gems (test_checks.py, line"
        in failed["After restoring a snapshot, the same actions have the same results."]
    )
    assert failed["After a reset, nothing of the last episode remains."] == (
        "for the same reason as above"
    )


@pytest.mark.usefixtures("quick")
def test_game_that_breaks_its_contract_fails_with_the_message_of_the_guard():
    findings = list(check_game(entry_of(OneAxisTooMany), Settings()))

    second = findings[1]
    assert second.sentence == (
        "Everything the game returns has the declared shape and type."
    )
    assert second.result == "failed"
    assert second.detail.startswith("game 'oneaxistoomany' gave agent 'anna' part")


@pytest.mark.usefixtures("quick")
def test_check_that_does_not_apply_says_why():
    findings = list(check_game(entry_of(Sum), Settings()))

    skipped = {f.sentence: f.detail for f in findings if f.result == "skipped"}
    assert skipped == {
        "A thing that two agents go for is given to only one of them.": "only grid games "
        "have things to take"
    }


def test_every_check_has_its_own_sentence():
    assert len(set(SENTENCES)) == len(SENTENCES) >= 8
    assert all(sentence.endswith(".") for sentence in SENTENCES)


class RaisesLate(Field):
    """Raises in its second turn, whoever plays it."""

    def after(self, world: grid.World) -> None:
        if world.turn[0] > 0:
            raise IndexError("no such gem")


@pytest.mark.usefixtures("quick")
def test_whatever_a_game_raises_is_reported_once_and_the_other_checks_are_skipped():
    findings = list(check_game(entry_of(RaisesLate), Field.Settings()))

    line = RaisesLate.after.__code__.co_firstlineno + 2
    assert [finding.result for finding in findings] == ["passed", "failed", "skipped"]
    assert f"(test_checks.py, line {line})" in findings[1].detail
    assert findings[2].detail == "they need a game that plays"


@pytest.mark.usefixtures("quick")
def test_game_that_cannot_be_built_is_reported_once():
    class Nowhere(Field):
        map = "#"

    findings = list(check_game(entry_of(Nowhere), Field.Settings()))

    assert [finding.result for finding in findings] == ["failed", "skipped"]
    assert "there is room to start for only 0" in findings[0].detail
