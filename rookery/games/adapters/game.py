"""Foreign games behind the game contract, in the actor.

Each world is a separate object, reseeded for every episode, so that an episode can be
repeated from its actions. All games have the form of PettingZoo's parallel games, or are
brought into it by `parallel.py`.

The one rule: observations are written in `begin_turn` and nowhere else, so that the
arrays `observe` returned do not change during the turn.
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
from rookery.games.adapters.parallel import AdapterError, AecAdapter, ParallelGame
from rookery.games.adapters.settings import RENDER_MODE, ForeignSettings
from rookery.games.adapters.spaces import AgentSpaces, check_names
from rookery.games.adapters.world import ForeignWorld, wrap_error
from rookery.games.base import Game, Observations, Outcome, Phases, are_finite
from rookery.rng import Purpose
from rookery.specs import Array


class ForeignGame(Game):
    """`worlds` copies of one foreign game."""

    fair = False
    replayable = True
    MAX_TURNS: ClassVar[int] = 1000
    """Turns that a snapshot can repeat; one taken later in an episode is not exact."""
    path: ClassVar[str]
    factory: ClassVar[Callable[..., Any]]
    """Makes one foreign game."""
    is_drawable: ClassVar[bool]
    drawing_advice: ClassVar[str] = ""
    """What to change in the game so that it can be drawn."""

    def __init__(
        self, settings: Settings, worlds: int, seed: int, first_world: int = 0
    ) -> None:
        super().__init__(settings, worlds, seed, first_world)
        self._seed, self._first_world = seed, first_world
        assert isinstance(settings, ForeignSettings)
        self.keywords = settings.arguments()
        self._rebuilds = settings.rebuild_each_episode
        self._sums = settings.reward == "sum"
        copies = [self._build(w) for w in range(worlds)]
        count = len(copies[0].possible_agents)
        self.turn_based = isinstance(copies[0], AecAdapter)
        """Whether one agent at a time is active in each world."""
        self._spaces = [self._spaces_of(copies[0], i) for i in range(count)]
        self.agents = tuple(agent.spec for agent in self._spaces)
        check_names(self.path, settings, copies[0])
        self._phases = (tuple(range(count)),)
        self._worlds = [self._world(w, copy) for w, copy in enumerate(copies)]
        self._active = np.zeros((count, worlds), bool)
        self._retired: list[ParallelGame] = []
        """Copies that drawable ones replaced; closing them now could stop pygame."""
        self._acting: list[list[AgentSpaces] | None] = [None] * worlds
        """Per world, the agents that `_active` was last set from."""
        self._actions = np.zeros((worlds, count), np.int16)
        self._history = np.full((worlds, self.MAX_TURNS, count), -1, np.int16)
        for w in range(worlds):
            self._start(w, 0)

    @abstractmethod
    def make_copy(self, **keywords: Any) -> ParallelGame:
        """Return a new foreign game, made with `self.keywords` and `keywords`."""

    def begin_turn(self) -> Phases:
        """Write the observations; all agents act in one phase."""
        with np.errstate(over="raise"):
            self._write_observations()
        for w, world in enumerate(self._worlds):
            if world.acting is not self._acting[w]:
                self._acting[w] = world.acting
                self._active[:, w] = False
                for agent in world.acting:
                    self._active[agent.index, w] = True
        for agent in self._spaces:
            if agent.legal is not None:
                # In turn-based games, agents that wait have empty masks. They do not
                # choose, but a row without any legal action would look like a mistake.
                has_choice = np.logical_or.reduce(agent.legal, axis=1)
                has_choice |= self._active[agent.index]
                agent.legal |= ~has_choice[:, None]
        return self._phases

    def _write_observations(self) -> None:
        for w, world in enumerate(self._worlds):
            for agent in world.gone:
                agent.blank(w)
            for agent in world.fresh:
                agent.write(w, world.observations[agent.name])

    def observe(self, agents: Sequence[int]) -> Observations:
        """Return the rows, which do not change until the next turn begins."""
        return Observations(
            [self._spaces[i].parts for i in agents],
            [self._active[i] for i in agents],
            [self._spaces[i].legal for i in agents],
        )

    def act(self, agents: Sequence[int], actions: Array) -> None:
        """Store the actions until the end of the turn."""
        columns = slice(None) if agents is self._phases[0] else list(agents)
        self._actions[:, columns] = actions

    def end_turn(self) -> Outcome:
        """Step the worlds that are playing, and reset those that were closing."""
        shape = self._actions.shape
        doubles = np.zeros(shape)
        terminated, truncated = np.zeros(shape, bool), np.zeros(shape, bool)
        played: dict[int, list[int]] = {}
        taken = np.where(self._active.T, self._actions, np.int16(-1))
        for w, (world, row) in enumerate(zip(self._worlds, taken.tolist(), strict=True)):
            if not world.live:
                self._start(w, world.episode + 1)
                continue
            if world.turn < self.MAX_TURNS:
                self._history[w, world.turn] = taken[w]
            played[w] = [agent.index for agent in world.live]
            world.step(row, (doubles[w], terminated[w], truncated[w]))
        rewards = doubles
        if are_finite(doubles).all():  # else the guard reports which is not
            rewards = doubles.astype(np.float32)
        if not self._sums:
            return Outcome(rewards, terminated, truncated)
        sums = np.zeros_like(rewards)
        with np.errstate(over="ignore"):  # the guard reports this, too
            for w, agents in played.items():
                sums[w, agents] = rewards[w].sum()
        return Outcome(sums, terminated, truncated, rewards)

    def snapshot(self) -> dict[str, Array]:
        """Return each world's episode number and the actions taken in it.

        Everything else follows from repeating them. Where `exact` is False, the episode
        is longer than MAX_TURNS and only its beginning is stored.
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
                f"A snapshot with actions of shape {arrays['actions'].shape} does not fit "
                f"{self.path}, which has {self._history.shape}: use the same settings."
            )
        self._history[...] = arrays["actions"]
        for w, world in enumerate(self._worlds):
            for agent in self._spaces:
                agent.blank(w)
            self._repeat(w, world, int(arrays["episode"][w]), int(arrays["turn"][w]))
        self.begin_turn()  # a snapshot may have been taken within a turn

    def render(self, world: int) -> Array:
        """Return an image of one world; the first one repeats the episode so far."""
        if self._worlds[world].is_drawable:
            # Closing a game that draws with pygame quits pygame for all others, and only
            # a new copy starts it again.
            with suppress(GameError):
                return self._worlds[world].draw()
        self._worlds[world] = self._drawable(world)
        return self._worlds[world].draw()

    def close(self) -> None:
        """Close all copies, ignoring what they raise."""
        for copy in [*self._retired, *(world.copy for world in self._worlds)]:
            with suppress(Exception):
                copy.close()

    def _build(self, w: int, **keywords: Any) -> ParallelGame:
        """Return a copy of the game for a world."""
        try:
            with warnings.catch_warnings():
                # Gymnasium warns of every game without images, which is not a mistake.
                warnings.filterwarnings("ignore", ".*does not have a `render_mode`")
                return self.make_copy(**keywords)
        except AdapterError as error:
            raise GameError(f"{self.path} {error.fault}: {error.remedy}.") from None
        except Exception as error:
            number = self._first_world + w
            raise wrap_error(self.path, "its constructor", number, error) from error

    def _spaces_of(self, copy: ParallelGame, index: int) -> AgentSpaces:
        first, settings = self._first_world, self.settings
        assert isinstance(settings, ForeignSettings)
        try:
            return AgentSpaces(
                self.path,
                copy,
                index,
                self.worlds,
                first,
                settings.shrink,
                settings.without,
                settings.codes,
            )
        except GameError:
            raise
        except Exception as error:
            raise wrap_error(self.path, "its spaces", first, error) from error

    def _world(self, w: int, copy: ParallelGame, is_drawable: bool = False) -> ForeignWorld:
        number = self._first_world + w
        return ForeignWorld(self.path, number, copy, self._spaces, is_drawable)

    def _start(self, w: int, episode: int) -> None:
        self._history[w] = -1
        self._repeat(w, self._worlds[w], episode, turn=0)

    def _reset_seed(self, w: int, episode: int) -> int:
        key = (int(Purpose.RESET), self._first_world + w, episode)
        return int(np.random.SeedSequence(self._seed, spawn_key=key).generate_state(1)[0])

    def _repeat(self, w: int, world: ForeignWorld, episode: int, turn: int) -> None:
        """Bring `world` to a turn of an episode by repeating the stored actions."""
        unused = np.zeros((3, len(self._spaces)))
        if self._rebuilds and world.was_reset:
            # The old copy is not closed, because that could stop pygame.
            mode = {RENDER_MODE: "rgb_array"} if world.is_drawable else {}
            world.copy = self._build(w, **mode)
        world.reset(episode, self._reset_seed(w, episode))
        for row in self._history[w, :turn].tolist():
            world.step(row, (unused[0], unused[1], unused[2]))
        world.turn = turn

    def _drawable(self, w: int) -> ForeignWorld:
        """Return world `w` with a copy that can be drawn.

        Copies cannot be drawn by default, because some games are slower then. The new
        copy replaces the old one only if its observations are the same. Before the first
        turn of an episode, nothing has been observed yet, and any copy will do.
        """
        if not self.is_drawable:
            raise GameError(f"{self.path} has no picture to show: {self.drawing_advice}.")
        old = self._worlds[w]
        new = self._world(w, self._build(w, **{RENDER_MODE: "rgb_array"}), is_drawable=True)
        self._repeat(w, new, old.episode, old.turn)
        if old.turn and not are_equal(new.observations, old.observations):
            raise GameError(
                f"{self.path} cannot be drawn in world {old.number}, because repeating "
                "the episode gave a different one: draw it before its first turn, too."
            )
        self._retired.append(old.copy)
        return new


def are_equal(left: Any, right: Any) -> bool:
    """Whether two observations, or dicts of them, are equal in every number."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        have_same_keys = left.keys() == right.keys()
        return have_same_keys and all(are_equal(left[key], right[key]) for key in left)
    return np.array_equal(left, right)
