"""The conformance test: our games pass it, and every planted bug is found by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from pydantic import Field as Limits

from rookery.config.base import Settings
from rookery.errors import GameError
from rookery.games import gridworld as grid
from rookery.games import registry as catalog
from rookery.games.base import Game, Observations, Outcome
from rookery.games.conformance import checks
from rookery.games.conformance.checks import Conformance, Skipped, check_game
from rookery.games.conformance.playback import Broken, Playback, compare
from rookery.games.players import RandomPlayer
from rookery.games.registry import Entry
from rookery.specs import AgentSpec, Part

GAMES = sorted(catalog.entries_by_name())
SENTENCES = [
    method.__doc__.split("\n")[0]
    for name, method in vars(Conformance).items()
    if not name.startswith("_")
]
PARTS = {"total": Part((1,), np.dtype(np.float32))}


def entry_of(rules: Any) -> Entry:
    def build(settings: Any, *place: int) -> Game:
        return grid.GridEngine(rules(settings), *place)

    made = rules if issubclass(rules, Game) else build
    players = {"random": RandomPlayer}
    return Entry(rules.__name__.lower(), "", rules.Settings, players, made)


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


# Games that are right pass.


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", GAMES)
def test_shipped_game_passes_every_check(name):
    entry = catalog.find(name)

    found = list(check_game(entry, entry.settings(turns=15)))

    assert [finding for finding in found if finding.result == "failed"] == []
    assert len(found) == len(SENTENCES)


@pytest.mark.shows("H2")
@pytest.mark.parametrize("name", ["treasurehunt", "gathering"])
def test_grid_game_passes_every_check_at_full_length(name):
    entry = catalog.find(name)

    found = list(check_game(entry, entry.settings()))

    assert [finding for finding in found if finding.result != "passed"] == []


@pytest.mark.parametrize("name", GAMES)
def test_world_of_sixteen_equals_the_same_world_alone(name, monkeypatch):
    monkeypatch.setattr(checks, "WORLDS", 16)
    monkeypatch.setattr(checks, "TURNS", 20)
    entry = catalog.find(name)

    detail = Conformance(entry, entry.settings(turns=15)).worlds_do_not_touch()

    assert detail == "16 worlds of 40 turns, bit for bit"


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    "settings",
    [{"stop": 0.1}, {"history": (1, 4)}, {"stop": 0.2, "history": (3, 2)}],
    ids=str,
)
def test_matrix_game_of_any_settings_passes_every_check(settings):
    entry = catalog.find("iterated_stag_hunt")

    found = list(check_game(entry, entry.settings(turns=15, **settings)))

    assert [finding for finding in found if finding.result == "failed"] == []


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", ["treasurehunt", "gathering"])
def test_grid_game_acting_in_turn_passes_every_check(name):
    entry = catalog.find(name)
    settings = entry.settings(turns=15, acting="in_turn")

    found = list(check_game(entry, settings))

    assert [finding for finding in found if finding.result == "failed"] == []


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("rules", [Field, Sum])
def test_game_without_a_planted_bug_passes_every_check(rules):
    found = list(check_game(entry_of(rules), rules.Settings()))

    assert [finding for finding in found if finding.result == "failed"] == []


@pytest.mark.parametrize("name", ["treasurehunt", "gathering"])
def test_game_goes_back_to_the_same_arrays_and_pictures(name):
    entry = catalog.find(name)
    playback = Playback(entry.build(entry.settings(turns=60), 2, 0), seed=5)

    def play_on() -> tuple[list[Any], list[Any], dict[str, Any]]:
        turns_played, pictures = [], []
        for turn in range(100):
            turns_played.append(playback.turn(turn))
            pictures.append(playback.game.render(1).tobytes())
        return turns_played, pictures, playback.game.snapshot()

    playback.turns(200, 230)
    snapshot = playback.game.snapshot()
    first = play_on()
    playback.game.restore(snapshot)
    second = play_on()

    for one, other in zip(first[0], second[0], strict=True):
        compare(one, other, None, "after going back")
    assert first[1] == second[1]
    assert all(np.array_equal(first[2][name], second[2][name]) for name in first[2])


# The seats.


class FirstComesFirst(Field):
    """Settles all moves at the end of the turn, agent 0's always first."""

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
    """Pays whoever acts first in a turn: a matter of the order, and of nothing else."""

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
    """The last agent now and then gets nothing for its gem."""

    def act(self, world: grid.World, me: grid.Me) -> None:
        super().act(world, me)
        if me.number == len(world.agents) - 1:
            me.reward *= world.chance(0.7)


class Unlike(Sum):
    """Four agents of one role, of which two see more; agent 0 is paid for waiting."""

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
    words = (
        rf"^seat {seat} of 'hunter' played by random gets {sign}[\d.]+ against the mean "
        r"of all seats, \d+ standard errors$"
    )

    with pytest.raises(Broken, match=words):
        conformance(rules).treats_seats_alike()


@pytest.mark.shows("H2")
@pytest.mark.parametrize("rules", [FirstComesFirst, LastComesFirst])
def test_agent_that_always_acts_first_is_found(rules):
    words = r"^(seat \d of 'hunter' played by random gets|agent \d+ wins) "

    with pytest.raises(Broken, match=words):
        conformance(rules).treats_seats_alike()


@pytest.mark.shows("H2")
def test_order_that_decides_everything_and_is_fair_over_time_is_no_finding():
    detail = conformance(KingOfTheTurn).treats_seats_alike()

    assert detail == "400 turns in 64 worlds each with random"


@pytest.mark.shows("H2")
def test_seat_advantage_among_unlike_agents_of_one_role_is_found():
    with pytest.raises(Broken, match=r"^seat [01] of 'adder' played by random gets "):
        conformance(Unlike).treats_seats_alike()


@pytest.mark.shows("H2")
def test_seats_of_a_fair_game_are_alike():
    detail = conformance(Field).treats_seats_alike()

    assert detail == "400 turns in 64 worlds each with random"


def test_seats_are_not_compared_where_the_order_is_fixed():
    with pytest.raises(Skipped, match="order is fixed, which favours the first"):
        conformance(Field, order="fixed").treats_seats_alike()


def test_seats_are_not_compared_where_nobody_is_alike():
    entry = catalog.find("iterated_chicken")
    settings = entry.settings(history=(1, 2))

    with pytest.raises(Skipped, match="no two agents are alike"):
        Conformance(entry, settings).treats_seats_alike()


# What only one can have.


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
    words = (
        rf"^agents \d+ and \d+ both got \[{amount}, {amount}\] for the one thing they "
        r"went for in world \d+, turn \d+$"
    )

    with pytest.raises(Broken, match=words):
        conformance(rules).gives_each_thing_once()


@pytest.mark.shows("H2")
def test_gem_that_goes_to_one_is_no_finding():
    detail = conformance(Field).gives_each_thing_once()

    assert int(detail.removesuffix(" contests")) > 100


class Pair(Field):
    """A game for two and never more, however much room there is."""

    class Settings(Field.Settings):
        agents: int = Limits(2, ge=2, le=2)

    def after(self, world: grid.World) -> None:
        _one, _other = world.agents


@pytest.mark.shows("H2")
def test_game_for_two_is_never_played_by_more():
    detail = conformance(Pair).gives_each_thing_once()

    assert int(detail.removesuffix(" contests")) > 0


def test_games_without_things_have_nothing_to_contest():
    with pytest.raises(Skipped, match="only grid games have things to take"):
        conformance(Sum).gives_each_thing_once()


class Empty(Field):
    """Nothing ever turns up."""

    def before(self, world: grid.World) -> None:
        pass


def test_game_in_which_nobody_meets_says_so():
    with pytest.raises(Skipped, match="no two agents went for the same thing"):
        conformance(Empty).gives_each_thing_once()


# Worlds.


class AnyHit(Field):
    """Says `if hit.any()` where it should say `where=hit`."""

    def act(self, world: grid.World, me: grid.Me) -> None:
        hit = world.value(me.target) > 0
        super().act(world, me)
        if hit.any():
            me.reward -= 0.5


class MeanOfWorlds(Field):
    """Compares an agent with its other selves in other worlds."""

    def act(self, world: grid.World, me: grid.Me) -> None:
        worth = world.value(me.target)
        super().act(world, me)
        me.reward -= worth.mean()


class FirstWorldDecides(Field):
    """Takes one world's number for all."""

    def before(self, world: grid.World) -> None:
        if world.uniform()[0] < 0.5:
            super().before(world)


class CountsWhatHappened(Sum):
    """Counts only in turns in which everybody, everywhere, added."""

    counts = ("added",)

    def end_turn(self) -> Outcome:
        outcome = super().end_turn()
        added = outcome.rewards > 0
        outcome.counts = {"added": (added & added[:, 0].all()).astype(np.float32)}
        return outcome


@pytest.mark.parametrize("rules", [AnyHit, MeanOfWorlds])
def test_planted_leak_between_worlds_is_found_in_the_rewards(rules):
    words = r"^rewards of world \d differs in turn \d+ when it plays alone$"

    with pytest.raises(Broken, match=words):
        conformance(rules).worlds_do_not_touch()


def test_planted_leak_between_worlds_is_found_in_what_agents_see():
    words = (
        r"^part 'view' of agent '\d' of world [1-3] differs in turn \d+ when it plays "
        "alone$"
    )

    with pytest.raises(Broken, match=words):
        conformance(FirstWorldDecides).worlds_do_not_touch()


def test_metric_that_depends_on_other_worlds_is_found():
    with pytest.raises(Broken, match=r"^(count )?'?added'? .*when it plays alone"):
        conformance(CountsWhatHappened).worlds_do_not_touch()


# Repeating.


class NumpysOwnChance(Field):
    """Draws from numpy's one stream for everybody."""

    def before(self, world: grid.World) -> None:
        world.fill(self.gem, np.random.random(world.layout.cells) < 0.01)


class OneStreamOfItsOwn(Field):
    """Has a generator nobody can put back."""

    def declare(self) -> None:
        super().declare()
        self.stream = np.random.default_rng(0)

    def act(self, world: grid.World, me: grid.Me) -> None:
        super().act(world, me)
        me.reward += self.stream.random()


def test_game_with_numpys_own_random_numbers_does_not_repeat_itself():
    words = r"^part 'view' of agent '\d' of world \d differs in turn \d+ of a second run$"

    with pytest.raises(Broken, match=words):
        conformance(NumpysOwnChance).repeats_itself()


def test_stream_that_is_not_part_of_the_snapshot_is_found():
    words = r"^rewards of world 0 differs in turn 50 after going back$"

    with pytest.raises(Broken, match=words):
        conformance(OneStreamOfItsOwn).goes_back_exactly()


# What was handed out.


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
    """Fills one buffer anew in every turn, when nobody looks at the last one."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.buffers = np.zeros((2, self.worlds, 1), np.float32)

    def observe(self, agents: Sequence[int]) -> Observations:
        seen = super().observe(agents)
        self.buffers[...] = self.view()
        seen.parts = [{"total": self.buffers[i]} for i in agents]
        return seen


@pytest.mark.parametrize(
    ("rules", "what"),
    [
        (SeesItsState, "part 'total' of agent 'anna'"),
        (OneBufferForBoth, "part 'total' of agent 'anna'"),
        (ActiveIsItsState, "active of agent 'anna'"),
    ],
)
def test_array_that_changes_after_it_was_handed_out_is_found(rules, what):
    words = rf"^{what} of world \d differs in turn \d+ when looked at a turn later$"

    with pytest.raises(Broken, match=words):
        conformance(rules).leaves_what_it_said()


def test_array_may_be_used_again_once_the_next_turn_begins():
    detail = conformance(SeesOneBuffer).leaves_what_it_said()

    assert detail == "20 turns"


# Going back.


class SnapshotMissesTotal(Sum):
    def snapshot(self) -> dict[str, Any]:
        return {"turn": self.turn.copy()}

    def restore(self, arrays: Mapping[str, Any]) -> None:
        self.turn[...] = arrays["turn"]


class RestoreMissesTotal(Sum):
    def restore(self, arrays: Mapping[str, Any]) -> None:
        self.turn[...] = arrays["turn"]


class KeepsTalliesOnItself(Field):
    """Remembers gems in an array the engine knows nothing of, and never clears it."""

    def declare(self) -> None:
        super().declare()
        self.tally: Any = None

    def act(self, world: grid.World, me: grid.Me) -> None:
        if self.tally is None:
            self.tally = np.zeros(world.worlds, np.float32)
        self.tally += world.value(me.target)
        super().act(world, me)
        me.reward += 0.01 * self.tally


class SnapshotIsItsState(Sum):
    """Hands out its own arrays as the snapshot, which then changes with them."""

    def snapshot(self) -> dict[str, Any]:
        return {"total": self.total, "turn": self.turn}


class HiddenColumn(Sum):
    """Keeps something in the snapshot that the same actions do not bring again."""

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
    words = r"^part 'total' of agent 'anna' of world \d differs in turn 50 after going"

    with pytest.raises(Broken, match=words):
        conformance(rules).goes_back_exactly()


def test_state_that_the_engine_does_not_know_is_found_by_going_back():
    words = r"^rewards of world \d differs in turn 50 after going back$"

    with pytest.raises(Broken, match=words):
        conformance(KeepsTalliesOnItself).goes_back_exactly()


def test_column_that_comes_out_differently_is_named():
    with pytest.raises(
        Broken, match=r"^column 'age' of the snapshot differs after going back$"
    ):
        conformance(HiddenColumn).goes_back_exactly()


def test_snapshot_that_changes_with_the_game_is_found():
    with pytest.raises(Broken, match=r"'(total|turn)' of the snapshot"):
        conformance(SnapshotIsItsState).goes_back_exactly()


def test_game_that_cannot_be_snapshot_is_not_asked_to_go_back():
    class Fleeting(Sum):
        snapshot = Game.snapshot

    with pytest.raises(Skipped, match="the game cannot be snapshot"):
        conformance(Fleeting).goes_back_exactly()


# After a reset.


class ForgetsToClearTotal(Sum):
    def reset(self, where: Any) -> None:
        self.turn[where] = 0


class DoorStaysOpen(Sum):
    """Whoever adds first opens a door that the next episode finds open."""

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
    words = (
        r"^part 'total' of agent 'anna' of world 0 differs in turn 0 after another "
        "first episode$"
    )

    with pytest.raises(Broken, match=words):
        conformance(ForgetsToClearTotal).forgets_the_last_episode()


@pytest.mark.shows("D11")
def test_column_that_was_never_declared_and_so_is_not_reset_is_found():
    words = r"^rewards of world 0 differs in turn 0 after another first episode$"

    with pytest.raises(Broken, match=words):
        conformance(KeepsTalliesOnItself).forgets_the_last_episode()


@pytest.mark.shows("D11")
def test_flag_that_every_lively_episode_sets_and_no_reset_clears_is_found():
    words = (
        r"^part 'total' of agent 'anna' of world 0 differs in turn \d+ after another "
        "first episode$"
    )

    with pytest.raises(Broken, match=words):
        conformance(DoorStaysOpen).forgets_the_last_episode()


@pytest.mark.shows("D11")
@pytest.mark.parametrize("name", GAMES)
def test_nothing_of_the_old_episode_remains_in_a_shipped_game(name):
    entry = catalog.find(name)

    detail = Conformance(entry, entry.settings(turns=30)).forgets_the_last_episode()

    assert detail.startswith("100 turns ")


# The contract.


class OneAxisTooMany(Sum):
    def view(self) -> Any:
        return super().view()[:, None]


class Late(Sum):
    """Breaks its word only in its second episode."""

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

    assert str(raised.value) == (
        "game 'oneaxistoomany' gave agent 'anna' part 'total' as (4, 1, 1) float32, "
        "expected (4, 1) float32: the first axis is the world, the rest as declared."
    )


def test_contract_is_checked_beyond_the_first_episode():
    with pytest.raises(GameError, match="gave rewards of nan to agent 'anna' in world"):
        conformance(Late).keeps_its_contract()


# All checks of a game.


@pytest.mark.usefixtures("quick")
def test_failing_check_does_not_stop_the_others():
    found = list(check_game(entry_of(KeepsTalliesOnItself), Field.Settings()))

    failed = {finding.sentence for finding in found if finding.result == "failed"}
    assert len(found) == len(SENTENCES)
    assert failed >= {
        "After restoring a snapshot, the same actions bring the same again.",
        "After a reset nothing of the old episode remains.",
    }


@pytest.mark.usefixtures("quick")
def test_game_that_breaks_its_contract_fails_with_the_words_of_the_guard():
    found = list(check_game(entry_of(OneAxisTooMany), Settings()))

    first = found[0]
    assert first.sentence == (
        "What the game says has the declared shape and type, turn after turn."
    )
    assert first.result == "failed"
    assert first.detail.startswith("game 'oneaxistoomany' gave agent 'anna' part")


@pytest.mark.usefixtures("quick")
def test_check_that_does_not_apply_says_why():
    found = list(check_game(entry_of(Sum), Settings()))

    skipped = {f.sentence: f.detail for f in found if f.result == "skipped"}
    assert skipped == {
        "What only one agent can have goes to exactly one.": "only grid games have "
        "things to take"
    }


def test_every_check_is_a_sentence_of_its_own():
    assert len(set(SENTENCES)) == len(SENTENCES) >= 8
    assert all(sentence.endswith(".") for sentence in SENTENCES)
