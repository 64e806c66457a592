"""Gymnasium games behind the contract: one agent, copies of it, and games of lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from pydantic import ValidationError

import rookery
from rookery.errors import ConfigError, GameError
from rookery.games.adapters.gymnasium import GymnasiumGame, open_game
from rookery.games.conformance import checks
from rookery.games.conformance.playback import Playback, PlayedTurn
from rookery.games.guard import GuardedGame
from rookery.games.registry import find
from rookery.specs import Array
from tests.paths import GAME_FILES as FILES

GYM = f"{FILES / 'gym.py'}"
RELAY, LIGHTS, FAULTY = f"{GYM}:Relay", f"{GYM}:Lights", f"{GYM}:Faulty"
FORAGING = "lbforaging/Foraging-8x8-2p-2f-coop-v3"
SEED = 5


def make(path: str, worlds: int = 2, first_world: int = 0, **settings: Any) -> GuardedGame:
    kind = open_game(path)
    made = kind(kind.Settings(**settings), worlds, SEED, first_world)
    return GuardedGame(made, f"gymnasium:{path}")


def play(game: GuardedGame, actions: Any = None, turns: int = 30) -> list[PlayedTurn]:
    """Play turns; `actions` are one per agent, the same in every world and turn."""
    turns_played = []
    for turn in range(turns):
        played = PlayedTurn(turn)
        (phase,) = game.begin_turn()
        played.hear(game, phase, game.observe(phase))
        game.act(phase, np.tile(actions, (game.worlds, 1)))
        played.close(game.end_turn())
        turns_played.append(played)
    return turns_played


def play_faulty(fault: str) -> None:
    game = make(FAULTY, fault=fault, worlds=1, first_world=3)
    play(game, [0] * len(game.agents), turns=6)


CONFORMING = {
    "one": ("CartPole-v1", {}),
    "copies": ("CartPole-v1", {"copies": 3}),
    "foraging": (FORAGING, {}),
    "foraging for all": (FORAGING, {"reward": "sum"}),
    "lists": (RELAY, {"length": 5}),
    "lists that end one by one": (RELAY, {"ends": "each"}),
    "an image": (LIGHTS, {"copies": 2}),
    "a tuple of numbers": ("Blackjack-v1", {}),
}


@pytest.mark.shows("H3")
@pytest.mark.parametrize("case", CONFORMING)
def test_a_gymnasium_game_conforms(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path, settings = CONFORMING[case]
    monkeypatch.setattr(checks, "TURNS", 40)
    monkeypatch.setattr(checks, "HISTORIES", 3)
    entry = find(f"gymnasium:{path}")

    found = list(checks.check_game(entry, entry.settings(**settings)))

    assert [
        f"{one.sentence}: {one.detail}" for one in found if one.result == "failed"
    ] == []
    assert sum(one.result == "passed" for one in found) >= 6


class TestLists:
    def test_each_agent_has_its_own_number_spaces_and_role(self) -> None:
        game = make(RELAY)

        assert [spec.id for spec in game.agents] == ["0", "1", "2"]
        assert [spec.num_actions for spec in game.agents] == [2, 3, 4]
        assert {spec.role for spec in game.agents} == {"agent"}
        assert str(game.agents[0].parts["vector"]) == "(2,) float32"

    def test_each_agent_sees_and_gets_its_own(self) -> None:
        played, after = play(make(RELAY), [1, 0, 3], turns=2)

        assert played.said["rewards"].tolist() == [[1, 0, 3]] * 2
        assert after.said["part 'vector' of agent '2'"][:, 0].tolist() == [3, 3]

    def test_one_flag_ends_the_episode_for_everybody(self) -> None:
        turns_played = play(make(RELAY, length=4), [0, 0, 0], turns=6)

        ends = [played.said["terminated"].tolist() for played in turns_played]
        assert (
            ends == [[[False] * 3] * 2] * 3 + [[[True] * 3] * 2] + [[[False] * 3] * 2] * 2
        )

    def test_agents_may_end_one_by_one(self) -> None:
        turns_played = play(make(RELAY, ends="each"), [1, 1, 1], turns=10)

        ended = np.array([played.said["terminated"][0] for played in turns_played])
        rewards = np.array([played.said["rewards"][0] for played in turns_played])
        assert ended.argmax(axis=0).tolist() == [8, 6, 4]
        assert ended.sum(axis=0).tolist() == [1, 1, 1]
        assert rewards.sum(axis=0).tolist() == [9, 7, 5]

    def test_one_reward_is_everybodys(self) -> None:
        (played,) = play(make(RELAY, team=True), [0, 0, 0], turns=1)

        assert (played.said["rewards"] == 1.5).all()

    def test_foraging_is_what_the_game_itself_says(self) -> None:
        turns_played = Playback(make(FORAGING, worlds=1), SEED).turns(0, 40)
        bare = gymnasium.make(FORAGING.partition("/")[2], disable_env_checker=True)
        game = make(FORAGING, worlds=1).game
        assert isinstance(game, GymnasiumGame)

        seen, _ = bare.reset(seed=game._reset_seed(0, 0))

        playback = Playback(make(FORAGING, worlds=1), SEED)
        for played in turns_played:
            for i in range(2):
                part = played.said[f"part 'vector' of agent '{i}'"][0]
                np.testing.assert_array_equal(part, seen[i])
            (phase,) = playback.game.begin_turn()
            heard = playback.game.observe(phase)
            actions = playback.actions(played.turn, phase, heard)
            playback.game.act(phase, actions)
            playback.game.end_turn()
            seen, rewards, over, _, _ = bare.step(actions[0].tolist())
            assert played.said["rewards"][0].tolist() == np.float32(rewards).tolist()
            assert played.said["terminated"][0].tolist() == [over] * 2


class TestRewards:
    def test_with_sum_everybody_is_trained_on_all_rewards_and_scores_are_its_own(
        self,
    ) -> None:
        (played,) = play(make(RELAY, reward="sum"), [1, 2, 3], turns=1)

        assert played.said["rewards"].tolist() == [[6, 6, 6]] * 2
        assert played.said["scores"].tolist() == [[1, 2, 3]] * 2

    def test_who_has_ended_gets_nothing_of_the_sum(self) -> None:
        turns_played = play(make(RELAY, reward="sum", ends="each"), [1, 1, 1], turns=9)

        rewards = np.array([played.said["rewards"][0] for played in turns_played])
        assert rewards[4].tolist() == [3, 3, 3]
        assert rewards[5].tolist() == [2, 2, 0]
        assert rewards[8].tolist() == [1, 0, 0]

    def test_with_own_nothing_is_reported_but_the_reward(self) -> None:
        (played,) = play(make(RELAY), [1, 2, 3], turns=1)

        assert "scores" not in played.said

    def test_pettingzoo_games_have_it_too(self) -> None:
        entry = find("pettingzoo:mpe2.simple_spread_v3")
        game = GuardedGame(entry.build(entry.settings(reward="sum"), 2, SEED), entry.name)

        (played,) = play(game, [0, 1, 2], turns=1)

        own = played.said["scores"]
        assert (played.said["rewards"] == own.sum(axis=1, keepdims=True)).all()


class TestCopies:
    def test_each_copy_has_an_agent_called_by_its_number(self) -> None:
        game = make("CartPole-v1", copies=4)

        assert [spec.id for spec in game.agents] == ["0", "1", "2", "3"]

    def test_copies_start_apart_from_each_other(self) -> None:
        (played,) = play(make("CartPole-v1", copies=3, worlds=1), [0, 0, 0], turns=1)

        starts = {part.tobytes() for name, part in played.said.items() if "vector" in name}
        assert len(starts) == 3

    @pytest.mark.shows("A2")
    def test_what_a_copy_shows_does_not_depend_on_what_others_do(self) -> None:
        ways = [self.lives(others) for others in (0, 1)]

        for one, other in zip(*ways, strict=True):
            np.testing.assert_array_equal(one, other)

    @staticmethod
    def lives(others: int) -> list[Array]:
        """Return what agent 1 saw, episode by episode; the others do the same always."""
        game = make("CartPole-v1", copies=3, worlds=1)
        episodes: list[list[Array]] = [[]]
        while len(episodes) < 5:
            (phase,) = game.begin_turn()
            seen = game.observe(phase)
            active = np.array(seen.active)[:, 0]
            if not active.any():
                episodes.append([])
            if active[1]:
                episodes[-1].append(seen.parts[1]["vector"][0].copy())
            own = len(episodes[-1]) % 3 > 0
            game.act(phase, np.array([[others, own, others]]))
            game.end_turn()
        return [np.array(episode) for episode in episodes[:4]]

    def test_who_has_ended_waits_for_the_others(self) -> None:
        game = make("CartPole-v1", copies=2, worlds=1)

        turns_played = play(game, [0, 0], turns=40)

        ends = np.array([played.said["terminated"][0] for played in turns_played])
        active = np.array(
            [
                [played.said[f"active of agent '{i}'"][0] for i in (0, 1)]
                for played in turns_played
            ]
        )
        closing = np.flatnonzero(~active.any(axis=1))
        for first, last in zip([-1, *closing], closing, strict=False):
            episode = slice(first + 1, last)
            assert ends[episode].sum(axis=0).tolist() == [1, 1]
            assert (active[episode].sum(axis=0) == ends[episode].argmax(axis=0) + 1).all()

    def test_copies_of_a_game_for_several_are_refused(self) -> None:
        with pytest.raises(GameError, match="is a game of several agents: copies are"):
            make(RELAY, copies=2)


class TestSettings:
    def test_what_the_game_is_registered_with_are_the_defaults(self) -> None:
        fields = open_game(FORAGING).Settings.model_fields

        assert (fields["players"].default, fields["field_size"].default) == (2, (8, 8))
        assert not fields["players"].is_required()
        assert "render_mode" not in fields

    def test_settings_reach_the_game(self) -> None:
        assert len(make(FORAGING, players=4).agents) == 4

    def test_an_episode_can_be_limited(self) -> None:
        turns_played = play(make("CartPole-v1", max_episode_steps=5), [0], turns=5)

        assert turns_played[4].said["truncated"].all()
        assert not turns_played[4].said["terminated"].any()

    def test_a_limit_of_the_games_own_is_the_games(self) -> None:
        turns_played = play(make(FORAGING, max_episode_steps=3), [0, 0], turns=3)

        assert turns_played[2].said["terminated"].all()

    def test_a_wrong_key_is_refused(self) -> None:
        with pytest.raises(ValidationError):
            open_game("CartPole-v1").Settings(gravity=3)


class TestPaths:
    @pytest.mark.parametrize(
        "path",
        ["CartPole-v1", FORAGING, RELAY, f"{GYM}:Relay-v7", FORAGING.replace("/", ":")],
    )
    def test_a_game_is_found_by(self, path: str) -> None:
        assert make(path).agents

    @pytest.mark.parametrize(
        ("path", "words"),
        [
            (
                "CartPole-v7",
                "'CartPole-v7' names no Gymnasium game: did you mean 'CartPole",
            ),
            ("CartPole", "did you mean 'CartPole-v1'?"),
            ("nowhere/Some-v0", "There is no module 'nowhere': pip install nowhere"),
            ("lbforaging/Foraging-8x8-v3", "did you mean 'Foraging-"),
            (f"{GYM}:Rely", "names no Gymnasium game"),
            ("./nowhere.py:Some", "There is no file 'nowhere.py'"),
            ("./nowhere.py", "names no Gymnasium game"),
            ("", "'' names no Gymnasium game"),
            ("LunarLander-v3", "install what the game needs."),
        ],
    )
    def test_a_path_that_names_no_game_is_refused(self, path: str, words: str) -> None:
        with pytest.raises(ConfigError) as caught:
            open_game(path)

        assert words in str(caught.value)
        assert "\n" not in str(caught.value)


class TestFaults:
    @pytest.mark.shows("D10")
    def test_continuous_actions_are_refused_before_the_first_turn(self) -> None:
        with pytest.raises(GameError) as caught:
            make("Pendulum-v1")

        assert str(caught.value) == (
            "The action space Box(-2.0, 2.0, (1,), float32) of agent '0' of Pendulum-v1 is "
            "not Discrete(n) with n up to 32767: choose discrete actions in the game's "
            "settings if it has them, or wrap the game so that each action is one number."
        )

    @pytest.mark.parametrize(
        ("fault", "words"),
        [
            ("unequal", "2 agents act and 3 see: give both spaces one entry per agent."),
            ("no info", "world 3: reset() gave no pair: return observation, info."),
            ("raises", "raised in step() in world 3: RuntimeError: oh (gym.py, line"),
            ("four values", "world 3: step() gave no five values: return observation,"),
            ("shape", "in world 3 is (3,) float32, but its space says (2,) float32: make"),
            ("not a number", "showed agent '0' nan in part 'vector' of world 0: every"),
            ("double not a number", "showed agent '0' nan in part 'vector' of world 0:"),
            ("double too large", "in world 3 holds -1e+300, which is infinite in float32:"),
            ("large reward", "gave rewards of 1e+39 to agent '0' in world 0: every number"),
            ("endless reward", "gave rewards of inf to agent '0' in world 0: every number"),
            ("text reward", "world 3: the reward of agent '0' is 'lots': return a number."),
            ("two rewards", "the game gave 2 rewards for 3 agents: give a list or a tuple"),
            ("no list", "the game gave a int for observations for 3 agents: give"),
        ],
    )
    def test_a_fault_is_one_line_with_what_where_and_what_to_do(
        self, fault: str, words: str
    ) -> None:
        with pytest.raises(GameError) as caught:
            play_faulty(fault)

        assert words in str(caught.value)
        assert FAULTY in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_a_game_without_fault_plays_on(self) -> None:
        play(make(FAULTY), [0], turns=12)


class TestImages:
    def test_an_image_is_a_part_with_colours_first_that_networks_scale_down(self) -> None:
        (spec,) = make(LIGHTS).agents

        assert str(spec.parts["view"]) == "(3, 8, 8) uint8"
        assert spec.parts["view"].scale == 1 / 255

    def test_an_image_is_stored_as_the_game_shows_it(self) -> None:
        game = make(LIGHTS, worlds=1)
        play(game, [0], turns=1)
        game.begin_turn()

        stored = game.observe((0,)).parts[0]["view"][0]

        np.testing.assert_array_equal(stored.transpose(1, 2, 0), game.render(0))

    @pytest.mark.parametrize(("shrink", "left"), [(2, 5), (4, 2), (99, 1)])
    def test_a_picture_can_be_made_smaller(self, shrink: int, left: int) -> None:
        game = make(LIGHTS, worlds=1, size=11, shrink=min(shrink, 64))
        game.begin_turn()

        stored = game.observe((0,)).parts[0]["view"][0]

        side, whole = min(shrink, 11), game.render(0).astype(int)
        assert stored.shape == (3, left, left)
        for row, column in np.ndindex(left, left):
            square = whole[row * side :, column * side :][:side, :side]
            mean = square.sum(axis=(0, 1)) // side**2
            np.testing.assert_array_equal(stored[:, row, column], mean)

    def test_a_picture_of_copies_shows_them_side_by_side(self) -> None:
        game = make(LIGHTS, copies=3)
        play(game, [0, 1, 2], turns=2)

        assert game.render(1).shape == (8, 24, 3)

    @pytest.mark.parametrize("maker", ["lights", "AnyLights"])
    def test_what_takes_a_render_mode_in_its_own_way_can_be_drawn(self, maker: str) -> None:
        game = make(f"{GYM}:{maker}", worlds=1)

        assert game.render(0).shape == (8, 8, 3)

    def test_an_image_game_trains(self, tmp_path: Path) -> None:
        run = rookery.train(
            f"gymnasium:{LIGHTS}",
            run=tmp_path / "run",
            **{"rounds": 3, "turns_per_round": 20, "worlds": 2, "replay.warmup": 16},
            **{"batch_size": 8, "updates_per_round": 2, "network.width": 16, "workers": 0},
            **{"network.channels": 16},
        )

        assert run.metrics()["loss"].notna().any()
