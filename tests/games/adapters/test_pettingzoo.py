"""PettingZoo games behind the contract: published, small and faulty ones."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from mpe2 import simple_spread_v3
from pettingzoo import AECEnv
from pettingzoo.classic import tictactoe_v3
from pettingzoo.utils.conversions import aec_to_parallel, turn_based_aec_to_parallel
from pettingzoo.utils.wrappers import TerminateIllegalWrapper
from pydantic import ValidationError

from rookery.errors import ConfigError, GameError
from rookery.games.adapters.pettingzoo import PettingZooGame, as_parallel
from rookery.games.adapters.pettingzoo import open_game as open_pettingzoo
from rookery.rng import Purpose
from rookery.specs import Array
from tests.paths import GAME_FILES

ZOO = f"{GAME_FILES / 'zoo.py'}"
WORLDS = 3
SEED = 11

KAZ = "pettingzoo.butterfly.knights_archers_zombies_v11"
TICTACTOE = "pettingzoo.classic.tictactoe_v3"
MORTAL = f"{ZOO}:mortal"
ELIMINATION = f"{ZOO}:elimination"
FAULTY = f"{ZOO}:faulty"

# Path, settings, and turns to play: some are slow, some have long episodes.
PLAYED: dict[str, tuple[str, dict[str, Any], int]] = {
    "spread": ("mpe2.simple_spread_v3", {"max_cycles": 20}, 150),
    "tag": ("mpe2.simple_tag_v3", {"max_cycles": 20}, 110),
    "speaker": ("mpe2.simple_speaker_listener_v4", {}, 150),
    "rps": ("pettingzoo.classic.rps_v2", {"num_actions": 5}, 200),
    "tictactoe": (TICTACTOE, {}, 200),
    "connect four": ("pettingzoo.classic.connect_four_v3", {}, 200),
    "go": ("pettingzoo.classic.go_v5", {"board_size": 5}, 150),
    "zombies": (KAZ, {"spawn_delay": 1, "max_zombies": 40, "max_cycles": 110}, 125),
    "pursuit": ("pettingzoo.sisl.pursuit_v5", {"n_pursuers": 3, "max_cycles": 15}, 40),
    "mortal": (MORTAL, {}, 100),
    "elimination": (ELIMINATION, {}, 200),
    "duel": (f"{ZOO}:duel", {}, 150),
}
EVERY_GAME = pytest.mark.parametrize("name", PLAYED)


@dataclass
class Turn:
    """Copies of everything a game returned in one turn."""

    parts: list[dict[str, Array]]
    active: Array  # (agents, worlds)
    legal: list[Array | None]
    actions: Array
    rewards: Array
    terminated: Array
    truncated: Array

    def of_world(self, w: int) -> list[Array]:
        seen = [rows[w] for parts in self.parts for rows in parts.values()]
        masks = [legal[w] for legal in self.legal if legal is not None]
        outcome = [self.rewards[w], self.terminated[w], self.truncated[w]]
        return [*seen, *masks, self.active[:, w], self.actions[w], *outcome]


@dataclass
class Log:
    """A game, the turns that were played in it and the snapshot before each."""

    game: PettingZooGame
    turns: list[Turn]
    snapshots: list[dict[str, Array]]


def make(name: str, worlds: int = WORLDS, first_world: int = 0) -> PettingZooGame:
    path, settings, _ = PLAYED[name]
    kind = open_pettingzoo(path)
    return kind(kind.Settings(**settings), worlds, SEED, first_world)


def play_faulty(fault: str) -> None:
    kind = open_pettingzoo(FAULTY)
    game = kind(kind.Settings(fault=fault), 2, SEED, first_world=5)
    for turn in range(12):
        play_turn(game, turn)


def choose(game: PettingZooGame, turn: int, first_world: int, legal: Any) -> Array:
    """Return random legal actions that depend on the turn and the world's number."""
    actions = np.zeros((game.worlds, len(game.agents)), np.int64)
    for w in range(game.worlds):
        random = np.random.default_rng((turn, first_world + w))
        for i, spec in enumerate(game.agents):
            mask = np.ones(spec.num_actions, bool) if legal[i] is None else legal[i][w]
            actions[w, i] = random.choice(np.flatnonzero(mask))
    return actions


def play_turn(game: PettingZooGame, turn: int, first_world: int = 0) -> Turn:
    (phase,) = game.begin_turn()
    seen = game.observe(phase)
    parts = [{k: rows.copy() for k, rows in rows_of.items()} for rows_of in seen.parts]
    legal = [None if mask is None else mask.copy() for mask in seen.legal]
    active = np.array(seen.active)
    actions = choose(game, turn, first_world, legal)
    game.act(phase, actions)
    outcome = game.end_turn()
    return Turn(
        parts,
        active,
        legal,
        np.where(active.T, actions, -1),
        outcome.rewards,
        outcome.terminated,
        outcome.truncated,
    )


@cache
def played(name: str) -> Log:
    game = make(name)
    turns, snapshots = [], []
    for turn in range(PLAYED[name][2]):
        snapshots.append(game.snapshot())
        turns.append(play_turn(game, turn))
    return Log(game, turns, snapshots)


def assert_same(left: list[Array], right: list[Array]) -> None:
    for a, b in zip(left, right, strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype


class TestEveryGame:
    @EVERY_GAME
    def test_arrays_are_as_declared_in_every_turn(self, name: str) -> None:
        log = played(name)

        for turn in log.turns:
            for spec, parts, legal in zip(
                log.game.agents, turn.parts, turn.legal, strict=True
            ):
                assert parts.keys() == spec.parts.keys()
                for key, part in spec.parts.items():
                    assert parts[key].shape == (WORLDS, *part.shape)
                    assert parts[key].dtype == part.dtype
                assert (legal is not None) == spec.masked
                assert legal is None or legal.any(axis=1).all()
            assert turn.rewards.shape == (WORLDS, len(log.game.agents))
            assert turn.rewards.dtype == np.float32

    @EVERY_GAME
    def test_every_agent_ends_once_in_an_episode_before_the_closing_turn(
        self, name: str
    ) -> None:
        log = played(name)
        episodes = 0

        for w in range(WORLDS):
            ended = np.zeros(len(log.game.agents), bool)
            for turn in log.turns:
                ends = turn.terminated[w] | turn.truncated[w]
                active = turn.active[:, w]
                assert not (ended & (active | ends)).any()
                assert active.any() != ended.all()
                if ended.all():
                    episodes += 1
                    assert not turn.rewards[w].any()
                    ended[:] = False
                else:
                    ended |= ends

        assert episodes >= WORLDS

    @EVERY_GAME
    def test_rows_are_what_the_bare_game_returns(self, name: str) -> None:
        log = played(name)

        for w in range(WORLDS):
            Witness(log.game, w).follow(log.turns)

    @EVERY_GAME
    def test_a_world_of_three_equals_the_same_world_on_its_own(self, name: str) -> None:
        log = played(name)
        alone = make(name, worlds=1, first_world=2)

        for number, turn in enumerate(log.turns[:100]):
            again = play_turn(alone, number, first_world=2)
            assert_same(turn.of_world(2), again.of_world(0))

    @EVERY_GAME
    def test_a_restored_game_continues_with_the_same_bits(self, name: str) -> None:
        log = played(name)
        game = make(name)

        for start in interesting_turns(log):
            game.restore(log.snapshots[start])
            for number in range(start, min(start + 15, len(log.turns))):
                assert_same_snapshot(game.snapshot(), log.snapshots[number])
                again = play_turn(game, number)
                for w in range(WORLDS):
                    assert_same(log.turns[number].of_world(w), again.of_world(w))

    @EVERY_GAME
    @pytest.mark.shows("D11")
    def test_after_a_reset_nothing_of_the_old_episode_remains(self, name: str) -> None:
        log = played(name)
        first = next(i for i, s in enumerate(log.snapshots) if i and not s["turn"][0])
        fresh = make(name)
        start = log.snapshots[first]
        fresh.restore({**start, "turn": start["turn"] * 0})

        again = play_turn(fresh, first)

        assert_same(log.turns[first].of_world(0), again.of_world(0))

    @EVERY_GAME
    def test_observations_do_not_change_until_the_next_turn(self, name: str) -> None:
        game = make(name)
        (phase,) = game.begin_turn()
        seen = game.observe(phase)
        before = [rows.copy() for parts in seen.parts for rows in parts.values()]

        game.act(phase, choose(game, 0, 0, seen.legal))
        game.end_turn()

        assert_same([rows for parts in seen.parts for rows in parts.values()], before)


def as_pettingzoo_converts(copy: Any) -> Any:
    """Return a game with PettingZoo's parallel interface, by PettingZoo's own means."""
    if not isinstance(copy, AECEnv):
        return copy
    copy.render_mode = None  # PettingZoo warns of games that have none
    can_parallel = copy.metadata.get("is_parallelizable", False)
    return (aec_to_parallel if can_parallel else turn_based_aec_to_parallel)(copy)


class Witness:
    """Plays one world of a log with the bare PettingZoo game, and compares."""

    def __init__(self, game: PettingZooGame, w: int) -> None:
        self.game, self.w = game, w
        self.copy = as_pettingzoo_converts(game.factory(**game.keywords))
        self.episode = -1
        self.closing: set[str] = set()
        self.ended: set[str] = set()
        self.reset()

    def reset(self) -> None:
        self.episode += 1
        key = (int(Purpose.RESET), self.w, self.episode)
        seed = np.random.SeedSequence(SEED, spawn_key=key).generate_state(1)[0]
        self.seen, _ = self.copy.reset(seed=int(seed))
        self.closing, self.ended = set(), set()

    def follow(self, turns: list[Turn]) -> None:
        for turn in turns:
            self.compare_rows(turn)
            if not self.copy.agents:
                assert not turn.rewards[self.w].any()
                self.reset()
                continue
            self.step(turn)

    def compare_rows(self, turn: Turn) -> None:
        for i, spec in enumerate(self.game.agents):
            shows = spec.id in self.copy.agents or spec.id in self.closing
            for key, rows in turn.parts[i].items():
                expected_row = self.expected(spec, key) if shows else 0
                np.testing.assert_array_equal(rows[self.w], expected_row)
            is_turn = self.game.turn_based and self.copy.agents
            movers = [self.copy.aec_env.agent_selection] if is_turn else self.copy.agents
            assert turn.active[i, self.w] == (spec.id in movers)
            legal = turn.legal[i]
            if legal is not None and turn.active[i, self.w]:
                mask = self.look(spec.id)["action_mask"]
                np.testing.assert_array_equal(legal[self.w], mask)

    def look(self, agent: str) -> Any:
        if self.game.turn_based and agent in self.copy.agents:
            return self.copy.aec_env.observe(agent)
        return self.seen[agent]

    def expected(self, spec: Any, key: str) -> Array:
        seen = self.look(spec.id)
        if isinstance(seen, dict):
            seen = seen[key] if key in seen else seen["observation"]
        if np.ndim(seen) == 0:
            return np.eye(spec.parts[key].shape[0], dtype=np.uint8)[seen]
        return np.asarray(seen).astype(spec.parts[key].dtype)

    def step(self, turn: Turn) -> None:
        joint = {
            spec.id: int(turn.actions[self.w, i] + self.copy.action_space(spec.id).start)
            for i, spec in enumerate(self.game.agents)
            if turn.active[i, self.w]
        }
        self.seen, rewards, terminated, truncated, _ = self.copy.step(joint)
        self.closing = set()
        for i, spec in enumerate(self.game.agents):
            ends = [terminated.get(spec.id, False), truncated.get(spec.id, False)]
            if spec.id in self.ended:
                ends = [False, False]
            if any(ends):
                self.closing.add(spec.id)
                self.ended.add(spec.id)
            elif not self.copy.agents and spec.id not in self.ended:
                ends = [False, True]  # agents that never joined end with the others
            flags = [turn.terminated[self.w, i], turn.truncated[self.w, i]]
            assert flags == [bool(flag) for flag in ends]
            expected_row = np.float32(rewards[spec.id]) if spec.id in rewards else 0
            assert turn.rewards[self.w, i] == expected_row


def interesting_turns(log: Log) -> list[int]:
    """Return the start, a closing turn, one after a death and one near the end."""
    closing = [i for i, t in enumerate(log.turns) if not t.active.any(axis=0).all()]
    deaths = [
        i + 1
        for i, turn in enumerate(log.turns[:-2])
        for ends in (turn.terminated | turn.truncated,)
        if (ends.any(axis=1) & ~ends.all(axis=1)).any()
    ]
    late = len(log.turns) - 10
    return [0, closing[0], *deaths[:1], *[i + 1 for i in deaths[-1:]], late]


def assert_same_snapshot(left: dict[str, Array], right: dict[str, Array]) -> None:
    assert left.keys() == right.keys()
    for key in left:
        np.testing.assert_array_equal(left[key], right[key])


class TestSpecs:
    def test_agents_have_their_own_names_roles_parts_and_actions(self) -> None:
        speaker, listener = make("speaker").agents

        assert (speaker.id, speaker.role) == ("speaker_0", "speaker")
        assert (speaker.num_actions, listener.num_actions) == (3, 5)
        assert str(speaker.parts["vector"]) == "(3,) float32"
        assert str(listener.parts["vector"]) == "(11,) float32"
        assert listener.action_names[:2] == ("action 0", "action 1")

    def test_a_mask_becomes_legal_actions_instead_of_a_part(self) -> None:
        player, _ = make("tictactoe").agents

        assert player.masked
        assert {k: str(v) for k, v in player.parts.items()} == {"view": "(3, 3, 2) int8"}

    def test_a_discrete_observation_is_one_hot(self) -> None:
        player, _ = make("rps").agents

        assert str(player.parts["vector"]) == "(6,) uint8"

    def test_a_dict_has_a_part_per_key_and_float64_becomes_float32(self) -> None:
        ant, _, _, cow = make("mortal").agents

        assert {k: str(v) for k, v in ant.parts.items()} == {
            "clock": "(1,) uint8",
            "place": "(3,) float32",
        }
        assert (ant.role, cow.role) == ("ant", "cow")

    def test_a_game_can_name_its_actions(self) -> None:
        assert make("mortal").agents[0].actions == ("rest", "dig", "run")

    def test_the_game_decides_which_agent_moves_next(self) -> None:
        turns = played("duel").turns

        movers = [
            int(turn.active[:, 0].argmax()) for turn in turns if turn.active[:, 0].any()
        ]
        followers = set(pairwise(movers))
        assert {(mover, mover) for mover in range(3)} & followers, "nobody moved twice"
        assert len(followers) > 6, "the order was the same throughout"

    def test_only_games_with_one_mover_are_turn_based(self) -> None:
        assert make("tictactoe").turn_based
        assert not make("spread").turn_based


class TestSettings:
    def test_keyword_arguments_are_settings_with_type_default_and_text(self) -> None:
        fields = open_pettingzoo("mpe2.simple_spread_v3").Settings.model_fields

        assert (fields["N"].annotation, fields["N"].default) == (int, 3)
        assert fields["N"].description == "number of agents and landmarks"
        assert fields["benchmark_data"].description == (
            "Keyword argument of mpe2.simple_spread_v3."
        )
        assert "render_mode" not in fields

    def test_settings_reach_the_game(self) -> None:
        kind = open_pettingzoo("mpe2.simple_spread_v3")

        assert len(kind(kind.Settings(N=5), 1, SEED).agents) == 5

    @pytest.mark.parametrize("wrong", [{"n": 5}, {"N": "many"}], ids=["key", "type"])
    def test_a_wrong_key_or_type_is_refused(self, wrong: dict[str, Any]) -> None:
        kind = open_pettingzoo("mpe2.simple_spread_v3")

        with pytest.raises(ValidationError):
            kind.Settings(**wrong)

    def test_every_key_is_accepted_if_the_signature_hides_them(self) -> None:
        kind = open_pettingzoo("pettingzoo.sisl.pursuit_v5")

        game = kind(kind.Settings(n_pursuers=2), 1, SEED)

        assert len(game.agents) == 2

    def test_without_annotations_the_default_gives_the_type(self) -> None:
        kind = open_pettingzoo(MORTAL)

        settings = kind.Settings.model_validate({"gift": 0.5, "size": [2]})

        assert settings.model_dump(
            exclude={"rebuild_each_episode", "reward", "shrink", "without", "codes"}
        ) == {
            "length": 12,
            "gift": 0.5,
            "size": (2,),
        }


def test_wrappers_that_only_check_are_left_out_and_others_stay() -> None:
    spread = as_parallel(simple_spread_v3.parallel_env())
    tictactoe = as_parallel(tictactoe_v3.env())

    assert isinstance(spread.aec_env, simple_spread_v3.raw_env)
    assert type(tictactoe._copy) is TerminateIllegalWrapper


class TestPaths:
    @pytest.mark.parametrize(
        "path",
        ["mpe2.simple_v3", "mpe2.simple_v3:env", "mpe2.simple_v3:parallel_env", MORTAL],
    )
    def test_a_game_is_found_by(self, path: str) -> None:
        kind = open_pettingzoo(path)

        assert kind(kind.Settings(), 1, SEED).agents

    @pytest.mark.parametrize(
        ("path", "message"),
        [
            ("mpe2.simple_spred_v3", "did you mean 'mpe2.simple_spread_v3'?"),
            ("mpe2.simple_v3:parallel", "did you mean 'parallel_env'?"),
            ("json", "'json' is not a PettingZoo game: name a module with"),
            (f"{ZOO}:constant", "is not a PettingZoo game"),
            (f"{ZOO}:", "is not a PettingZoo game"),
            (":env", "':env' is not a PettingZoo game"),
            ("", "'' is not a PettingZoo game"),
            ("./nowhere.py:env", "There is no file 'nowhere.py'"),
        ],
    )
    def test_a_path_that_is_not_a_game_is_refused(self, path: str, message: str) -> None:
        with pytest.raises(ConfigError) as caught:
            open_pettingzoo(path)

        assert message in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_a_function_that_does_not_make_a_game_is_an_error(self) -> None:
        kind = open_pettingzoo(f"{ZOO}:no_game")

        with pytest.raises(GameError, match=r"zoo.py:no_game made a dict without .* step"):
            kind(kind.Settings(), 1, SEED)


class TestFaults:
    @pytest.mark.shows("D10")
    def test_continuous_actions_are_refused_before_the_first_turn(self) -> None:
        kind = open_pettingzoo("mpe2.simple_spread_v3")

        with pytest.raises(GameError) as caught:
            kind(kind.Settings(continuous_actions=True), 1, SEED)

        assert str(caught.value) == (
            "The action space Box(0.0, 1.0, (5,), float32) of agent 'agent_0' of "
            "mpe2.simple_spread_v3 is not Discrete(n) with n up to 32767: choose "
            "discrete actions in the game's settings if it has them, or wrap the game "
            "so that each action is one number."
        )

    @pytest.mark.shows("D10")
    def test_an_observation_without_fixed_shape_is_refused(self) -> None:
        kind = open_pettingzoo(KAZ)

        with pytest.raises(GameError, match=r"agent 'archer_0' .* cannot be stored: make"):
            kind(kind.Settings(obs_method="vector-sequence"), 1, SEED)

    @pytest.mark.parametrize(
        ("fault", "message"),
        [
            ("constructor", "raised in its constructor in world 5: ValueError: two lines "),
            ("reset", "raised in reset() in world 5: KeyError: 'seed' (zoo.py, line"),
            ("no infos", "world 5: reset() returned no pair: return observations, infos."),
            ("nobody", "world 5: reset() left `agents` empty: list the agents there."),
            ("no observation at reset", "world 5: there is no observation for agent 'b_0'"),
            ("text space", "The observation space Text(1, 5, charset="),
            ("mask space", "of agent 'a_0' of"),
            ("number", "in world 5 is 7, but its space says Discrete(4, start=0): make"),
            ("dict", "in world 5 has no 'far', which its space declares: return"),
            ("dict of list", "has no 'near', which its space declares"),
            ("step", "raised in step() in world 5: RuntimeError: oh (zoo.py, line"),
            ("four values", "world 5: step() did not return five values: return obs"),
            (
                "list of rewards",
                "world 5: step() returned rewards that are not a dict: ret",
            ),
            ("observation", "world 5: there is no observation for agent 'b_0': return"),
            ("reward", "world 5: there is no reward for agent 'b_0': return one for"),
            ("termination", "world 5: there is no termination for agent 'b_0'"),
            ("truncation", "world 5: there is no truncation for agent 'b_0'"),
            ("reward of text", "world 5: the reward of agent 'b_0' is 'lots': return a"),
            ("stranger", "world 5: agent 'zoe' appeared: `possible_agents` has only a_0,"),
            ("left", "world 5: agent 'b_0' left `agents`: terminate or truncate it"),
            ("back", "world 5: agent 'b_0' came back after it had ended: end the"),
            ("shape", "in world 5 is (3,) float32, but its space says (2,) float32: make"),
            ("broadcast", "in world 5 is () float32, but its space says (2,) float32"),
            ("dtype", "in world 5 is (2,) complex64, but its space says (2,) float32"),
            ("action space", "world 5: the action space of agent 'a_0' changed to Disc"),
        ],
    )
    def test_a_fault_is_one_line_with_fault_world_and_remedy(
        self, fault: str, message: str
    ) -> None:
        with pytest.raises(GameError) as caught:
            play_faulty(fault)

        assert message in str(caught.value)
        assert FAULTY in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_selecting_an_absent_agent_is_one_line(self) -> None:
        kind = open_pettingzoo(f"{ZOO}:duel")
        game = kind(kind.Settings(fault="selection"), 1, SEED)

        with pytest.raises(
            GameError, match=r"next move is that of 'zoe', which is not in `ag"
        ):
            [play_turn(game, turn) for turn in range(4)]

    def test_a_game_without_a_fault_plays(self) -> None:
        play_faulty("")


class TestLeaks:
    """A game whose own reset leaves something behind."""

    @staticmethod
    def clocks(rebuild: bool) -> list[int]:
        kind = open_pettingzoo(f"{ZOO}:leaky")
        game = kind(kind.Settings(rebuild_each_episode=rebuild), 1, SEED)
        turns = [play_turn(game, number) for number in range(16)]
        return [int(turn.parts[1]["clock"][0, 0]) for turn in turns]

    @pytest.mark.shows("D11")
    def test_nothing_remains_if_each_episode_rebuilds_the_game(self) -> None:
        assert self.clocks(rebuild=True) == [*range(8), *range(8)]

    def test_something_remains_otherwise(self) -> None:
        assert self.clocks(rebuild=False)[:10] == [*range(8), 0, 2]


class TestSnapshots:
    def test_an_episode_beyond_the_limit_is_marked_as_not_exact(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(PettingZooGame, "MAX_TURNS", 8)
        game = make("mortal")

        exact = []
        for turn in range(14):
            play_turn(game, turn)
            exact.append(bool(game.snapshot()["exact"].all()))

        assert exact == [True] * 8 + [False] * 4 + [True] * 2

    def test_a_snapshot_holds_only_the_actions_of_its_episode(self) -> None:
        log = played("tictactoe")

        for snapshot in log.snapshots:
            for w in range(WORLDS):
                actions, turn = snapshot["actions"][w], snapshot["turn"][w]
                assert ((actions[:turn] >= 0).sum(axis=1) == 1).all()
                assert (actions[turn:] == -1).all()

    def test_a_snapshot_within_a_turn_restores_its_observations(self) -> None:
        game, other = make("tictactoe"), make("tictactoe")
        play_turn(game, 0)
        (phase,) = game.begin_turn()

        other.restore(game.snapshot())

        for left, right in zip(
            game.observe(phase).parts, other.observe(phase).parts, strict=True
        ):
            np.testing.assert_array_equal(left["view"], right["view"])

    def test_a_snapshot_of_another_game_is_refused(self) -> None:
        with pytest.raises(GameError, match=r"does not fit .*: use the same settings"):
            make("rps").restore(make("tag").snapshot())


class TestPictures:
    @pytest.mark.parametrize("name", ["spread", "tictactoe", "zombies", "pursuit"])
    def test_an_image_shows_the_world_and_does_not_change_it(self, name: str) -> None:
        log = played(name)
        game = make(name)
        for number in range(4):
            play_turn(game, number)

        picture = game.render(1)

        assert picture.ndim == 3
        assert picture.shape[2] == 3
        assert picture.dtype == np.uint8
        assert picture.std() > 0
        for number in range(4, 12):
            again = play_turn(game, number)
            assert_same(log.turns[number].of_world(1), again.of_world(1))

    def test_drawing_a_game_without_images_is_an_error(self) -> None:
        advice = "has no picture to show: let mortal take render_mode and pass it on"
        with pytest.raises(GameError, match=advice):
            make("mortal").render(0)

    def test_a_closed_game_does_not_stop_another_one_from_drawing(self) -> None:
        game, other = make("speaker"), make("speaker")
        game.render(0)
        other.render(0)

        game.close()

        assert other.render(0).std() > 0


def test_opening_a_game_prints_nothing() -> None:
    code = (
        "from rookery.games.adapters.pettingzoo import open_game;"
        f"kind = open_game({TICTACTOE!r}); kind(kind.Settings(), 1, 0)"
    )

    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert (result.stdout, result.stderr) == ("", "")
