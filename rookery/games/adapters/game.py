"""Foreign games behind the game contract, in the actor.

Each world is a foreign object of its own, seeded anew for every episode, so that a world
can be repeated from its actions. What it says is in one form, that of PettingZoo's
parallel games, whatever it spoke before.

The one rule: rows are written in `begin_turn` and nowhere else, so that what `observe`
returned stays whole until the turn is over.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

import numpy as np

from rookery.config.base import Settings
from rookery.errors import GameError
from rookery.games.adapters.in_turn import InTurn
from rookery.games.adapters.settings import RENDER_MODE, Keywords
from rookery.games.adapters.spaces import Seat
from rookery.games.adapters.world import Unfit, World, raised
from rookery.games.base import Game, Observations, Outcome, Phases, are_finite
from rookery.rng import Purpose
from rookery.specs import Array


class ForeignGame(Game):
    """`worlds` copies of one foreign game."""

    fair = False
    replayable = True
    MAX_TURNS: ClassVar[int] = 1000
    """Turns of an episode that a snapshot can repeat; longer ones are not exact."""
    path: ClassVar[str]
    factory: ClassVar[Callable[..., Any]]
    """Makes a foreign game."""
    is_drawable: ClassVar[bool]

    def __init__(
        self, settings: Settings, worlds: int, seed: int, first_world: int = 0
    ) -> None:
        super().__init__(settings, worlds, seed, first_world)
        self._seed, self._first_world = seed, first_world
        assert isinstance(settings, Keywords)
        self.keywords = settings.arguments()
        self._rebuilds = settings.rebuild_each_episode
        self._sums, self._shrink = settings.reward == "sum", settings.shrink
        copies = [self._build(w) for w in range(worlds)]
        count = len(copies[0].possible_agents)
        self.turn_based = isinstance(copies[0], InTurn)
        """Whether one agent at a time is active in each world."""
        self._seats = [self._seat(copies[0], i) for i in range(count)]
        self.agents = tuple(seat.spec for seat in self._seats)
        self._phases = (tuple(range(count)),)
        self._worlds = [self._world(w, copy) for w, copy in enumerate(copies)]
        self._active = np.zeros((count, worlds), bool)
        self._retired: list[Any] = []
        """Copies that drawable ones replaced; closing them now could stop pygame."""
        self._shown: list[list[Seat] | None] = [None] * worlds
        self._actions = np.zeros((worlds, count), np.int16)
        self._history = np.full((worlds, self.MAX_TURNS, count), -1, np.int16)
        for w in range(worlds):
            self._start(w, 0)

    @abstractmethod
    def make_copy(self, **more: Any) -> Any:
        """Return a new foreign game with this one's keywords and some `more`."""

    def begin_turn(self) -> Phases:
        """Write what was seen; everyone acts at the same moment."""
        with np.errstate(over="raise"):
            self._write_seen()
        for w, world in enumerate(self._worlds):
            if world.acting is not self._shown[w]:
                self._shown[w] = world.acting
                self._active[:, w] = False
                for seat in world.acting:
                    self._active[seat.index, w] = True
        for seat in self._seats:
            if seat.legal is not None:
                # In turn-based games those who wait have empty masks. Nothing is to be
                # chosen there, and nothing may look as if there were no choice.
                has_say = np.logical_or.reduce(seat.legal, axis=1)
                has_say |= self._active[seat.index]
                seat.legal |= ~has_say[:, None]
        return self._phases

    def _write_seen(self) -> None:
        for w, world in enumerate(self._worlds):
            for seat in world.gone:
                seat.blank(w)
            for seat in world.fresh:
                seat.write(w, world.seen[seat.name])

    def observe(self, agents: Sequence[int]) -> Observations:
        """Return the rows, which stay as they are until the next turn begins."""
        seats = [self._seats[agent] for agent in agents]
        return Observations(
            [seat.parts for seat in seats],
            [self._active[agent] for agent in agents],
            [seat.legal for seat in seats],
        )

    def act(self, agents: Sequence[int], actions: Array) -> None:
        """Keep the actions until everyone has chosen."""
        places = slice(None) if agents is self._phases[0] else list(agents)
        self._actions[:, places] = actions

    def end_turn(self) -> Outcome:
        """Advance the worlds that play, and start anew the ones that closed."""
        shape = self._actions.shape
        given = np.zeros(shape)
        terminated, truncated = np.zeros(shape, bool), np.zeros(shape, bool)
        paid: dict[int, list[int]] = {}
        taken = np.where(self._active.T, self._actions, np.int16(-1))
        for w, (world, row) in enumerate(zip(self._worlds, taken.tolist(), strict=True)):
            if not world.live:
                self._start(w, world.episode + 1)
                continue
            if world.turn < self.MAX_TURNS:
                self._history[w, world.turn] = taken[w]
            paid[w] = [seat.index for seat in world.live]
            world.step(row, (given[w], terminated[w], truncated[w]))
        rewards = given
        if are_finite(given).all():  # else the guard tells which is not
            rewards = given.astype(np.float32)
        if not self._sums:
            return Outcome(rewards, terminated, truncated)
        sums = np.zeros_like(rewards)
        with np.errstate(over="ignore"):  # told by the guard, too
            for w, agents in paid.items():
                sums[w, agents] = rewards[w].sum()
        return Outcome(sums, terminated, truncated, rewards)

    def snapshot(self) -> dict[str, Array]:
        """Return each world's episode and the actions taken in it.

        Who has ended and who is closing follows from repeating them. Where `exact` is
        False the episode is longer than MAX_TURNS and only its beginning is kept.
        """
        turns = np.array([world.turn for world in self._worlds])
        return {
            "episode": np.array([world.episode for world in self._worlds]),
            "turn": turns,
            "actions": self._history.copy(),
            "exact": turns <= self.MAX_TURNS,
        }

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Repeat the episodes of a snapshot up to where it was taken."""
        if arrays["actions"].shape != self._history.shape:
            raise GameError(
                f"A snapshot with actions {arrays['actions'].shape} does not fit "
                f"{self.path}, which has {self._history.shape}: use the same settings."
            )
        self._history[...] = arrays["actions"]
        for w, world in enumerate(self._worlds):
            for seat in self._seats:
                seat.blank(w)
            self._repeat(w, world, int(arrays["episode"][w]), int(arrays["turn"][w]))
        self.begin_turn()  # a snapshot may have been taken within a turn

    def render(self, world: int) -> Array:
        """Return a picture of one world; the first one costs repeating the episode."""
        if self._worlds[world].is_drawable:
            # Closing one game that draws with pygame quits pygame for all others, and
            # only a new copy starts it again.
            with suppress(GameError):
                return self._worlds[world].draw()
        self._worlds[world] = self._drawable(world)
        return self._worlds[world].draw()

    def close(self) -> None:
        """Close all copies; what a game complains about on leaving does not matter."""
        for copy in [*self._retired, *(world.copy for world in self._worlds)]:
            with suppress(Exception):
                copy.close()

    def _build(self, w: int, **more: Any) -> Any:
        """Return a copy of the game, in the one form."""
        try:
            with warnings.catch_warnings():
                # Said of every game without pictures, which is no mistake.
                warnings.filterwarnings("ignore", ".*does not have a `render_mode`")
                return self.make_copy(**more)
        except Unfit as error:
            raise GameError(f"{self.path} {error.what}: {error.advice}.") from None
        except Exception as error:
            number = self._first_world + w
            raise raised(self.path, "its constructor", number, error) from error

    def _seat(self, copy: Any, index: int) -> Seat:
        try:
            place = self.worlds, self._first_world
            return Seat(self.path, copy, index, *place, self._shrink)
        except GameError:
            raise
        except Exception as error:
            raise raised(self.path, "its spaces", self._first_world, error) from error

    def _world(self, w: int, copy: Any, is_drawable: bool = False) -> World:
        number = self._first_world + w
        return World(self.path, number, copy, self._seats, self.turn_based, is_drawable)

    def _start(self, w: int, episode: int) -> None:
        self._history[w] = -1
        self._repeat(w, self._worlds[w], episode, turn=0)

    def _reset_seed(self, w: int, episode: int) -> int:
        key = (int(Purpose.RESET), self._first_world + w, episode)
        return int(np.random.SeedSequence(self._seed, spawn_key=key).generate_state(1)[0])

    def _repeat(self, w: int, world: World, episode: int, turn: int) -> None:
        """Bring `world` to a turn of an episode by the actions recorded for it."""
        unread = np.zeros((3, len(self._seats)))
        if self._rebuilds and world.was_reset:
            # The old one is left to the garbage: closing it could stop pygame.
            mode = {RENDER_MODE: "rgb_array"} if world.is_drawable else {}
            world.copy = self._build(w, **mode)
        world.reset(episode, self._reset_seed(w, episode))
        for row in self._history[w, :turn].tolist():
            world.step(row, (unread[0], unread[1], unread[2]))
        world.turn = turn

    def _drawable(self, w: int) -> World:
        """Return world `w` as a copy that can draw itself.

        Copies do not draw by default: some games are slower for it. The new copy takes
        the old one's place only if it sees just the same.
        """
        if not self.is_drawable:
            raise GameError(
                f"{self.path} has no picture to show: it cannot be made with "
                f"{RENDER_MODE}='rgb_array'."
            )
        old = self._worlds[w]
        new = self._world(w, self._build(w, **{RENDER_MODE: "rgb_array"}), is_drawable=True)
        self._repeat(w, new, old.episode, old.turn)
        if not same(new.seen, old.seen):
            raise GameError(
                f"{self.path} cannot be drawn in world {old.number}, since repeating "
                "the episode gave another one: draw from its first turn on."
            )
        self._retired.append(old.copy)
        return new


def same(left: Any, right: Any) -> bool:
    """Whether two observations, or dicts of them, are equal in every number."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        keys = left.keys() == right.keys()
        return keys and all(same(left[key], right[key]) for key in left)
    return np.array_equal(left, right)
