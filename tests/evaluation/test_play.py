"""Matches: which episodes count, who plays which agent, and recordings."""

from __future__ import annotations

import gc
import os
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import rookery
from rookery.config.resolve import resolve
from rookery.errors import ConfigError, GameError, PlayerError
from rookery.evaluation.play import (
    Match,
    Seats,
    agents_of,
    assign_seats,
    play,
    play_match,
    player_name,
)
from rookery.games import gridworld as grid
from rookery.games import registry
from rookery.games.base import Outcome
from rookery.games.builtin.matrix import Cooperator, Defector
from rookery.games.players import Observation, Player, RandomPlayer
from rookery.games.registry import Entry
from tests.paths import GAME_FILES

DILEMMA = "iterated_prisoners_dilemma"
LIGHTS = f"gymnasium:{GAME_FILES / 'gym.py'}:Lights"


def match_of(
    entry: Entry,
    players: Seats,
    *,
    episodes: int = 4,
    worlds: int = 2,
    record: bool = False,
) -> Match:
    raw = {"worlds": worlds, "game": {"name": entry.name}}
    config = resolve(raw, entry.settings)
    seats = assign_seats(agents_of(entry, config), players)
    return play_match(entry, config, seats, episodes=episodes, record=record)


def positions(match: Match) -> set[tuple[int, int]]:
    return {(episode.world, episode.number) for episode in match.episodes}


def by_position(match: Match) -> dict[tuple[int, int], tuple[int, list[float]]]:
    return {
        (episode.world, episode.number): (episode.turns, episode.returns.tolist())
        for episode in match.episodes
    }


def entry_of(rules: type[grid.GridGame]) -> Entry:
    def build(settings: Any, *arguments: int) -> grid.GridEngine:
        return grid.GridEngine(rules(settings), *arguments)

    players = {"random": RandomPlayer}
    return Entry(rules.__name__.lower(), "", rules.Settings, players, build)


class Corridor(grid.GridGame):
    """Two agents in a corridor; a move is rewarded with 1."""

    map = "......"

    class Settings(grid.GridSettings):
        agents: int = 2
        turns: int = 5

    def declare(self) -> None:
        self.walker = grid.Body(grid.MOVES, sees={"view": grid.Window(1)})

    def act(self, world: grid.World, me: grid.Me) -> None:
        me.reward += me.move()


class Narrow(Corridor):
    """Moving up or down is illegal."""

    def legal(self, world: grid.World, me: grid.Me) -> Any:
        return np.tile([False, True, False, True], (world.worlds, 1))


class Scored(Corridor):
    """Has a shaped reward for training, and a score that counts."""

    scored = True

    def act(self, world: grid.World, me: grid.Me) -> None:
        me.reward += 100
        me.score += 1


class Leaver(Player):
    """Defects in the very first turn of the match, and never again."""

    def act(self, observation: Observation, turn: int) -> Any:
        return np.full(self.worlds, int(turn == 0))


class Fixed(Player):
    """Always takes the same actions."""

    actions: Any = 0

    def act(self, observation: Observation, turn: int) -> Any:
        return self.actions


# Episodes.


@pytest.mark.parametrize(
    ("episodes", "worlds"), [(1, 1), (5, 1), (8, 4), (10, 4), (3, 16)], ids=str
)
def test_exactly_the_wanted_number_of_episodes_is_played(episodes, worlds):
    match = play(DILEMMA, episodes=episodes, worlds=worlds, game={"turns": 3})

    assert len(match.episodes) == episodes
    assert match.returns.shape == (episodes, 2)


def test_worlds_share_episodes_that_do_not_divide_evenly():
    match = play(DILEMMA, episodes=10, worlds=4, game={"turns": 3})

    quotas = [(0, 3), (1, 3), (2, 2), (3, 2)]
    assert positions(match) == {(w, n) for w, quota in quotas for n in range(quota)}


def test_short_episodes_are_not_over_represented():
    match = play(DILEMMA, episodes=12, worlds=4, game={"stop": 0.1, "turns": 1000})

    assert len({episode.turns for episode in match.episodes}) > 3
    assert positions(match) == {(w, n) for w in range(4) for n in range(3)}


def test_every_world_plays_its_first_episodes():
    few = play(DILEMMA, episodes=8, worlds=4, game={"stop": 0.1, "turns": 1000})
    many = play(DILEMMA, episodes=40, worlds=4, game={"stop": 0.1, "turns": 1000})

    assert by_position(few).items() <= by_position(many).items()


def test_length_of_episodes_is_what_the_game_makes_it():
    match = play(DILEMMA, episodes=400, worlds=40, game={"stop": 0.1, "turns": 1000})

    mean = np.mean([episode.turns for episode in match.episodes])
    assert mean == pytest.approx(10, abs=4 * np.sqrt(90 / 400))


def test_closing_turns_do_not_count():
    match = play("treasurehunt", episodes=6, worlds=2, game={"turns": 7})

    assert [episode.turns for episode in match.episodes] == [7] * 6


def test_returns_are_the_sums_of_an_episodes_rewards():
    match = play(DILEMMA, [Defector, Cooperator], episodes=3, game={"turns": 4})

    assert match.returns.tolist() == [[20.0, 0.0]] * 3


def test_counts_are_added_up_per_episode():
    match = play(DILEMMA, [Defector, Cooperator], episodes=3, game={"turns": 4})

    counts = [episode.counts["cooperate"].tolist() for episode in match.episodes]
    assert counts == [[0.0, 4.0]] * 3


def test_scores_are_reported_if_the_game_has_them():
    match = match_of(entry_of(Scored), "random")

    assert match.returns.tolist() == [[5.0, 5.0]] * 4
    assert match.summary()["mean"] == 5.0


def test_summary_has_mean_and_spread_over_episodes_and_each_agents_mean():
    match = play("treasurehunt", episodes=5, game={"turns": 30})

    summary = match.summary()

    means = match.returns.mean(axis=1)
    assert summary["mean"] == pytest.approx(means.mean())
    assert summary["std"] == pytest.approx(means.std(ddof=1))
    assert summary["agents"] == pytest.approx(
        dict(zip("012", match.returns.mean(axis=0), strict=True))
    )


def test_spread_of_a_single_episode_is_zero():
    match = play("treasurehunt", episodes=1, game={"turns": 10})

    assert match.summary()["std"] == 0.0


def test_progress_is_reported_as_episodes_finish():
    entry = registry.find(DILEMMA)
    raw = {"worlds": 2, "game": {"name": DILEMMA, "turns": 2}}
    config = resolve(raw, entry.settings)
    reported: list[int] = []

    play_match(entry, config, ["random"] * 2, episodes=5, progress=reported.append)

    assert reported == [2, 4, 5]


# Seeds and worlds.


@pytest.mark.parametrize("game", ["treasurehunt", "gathering", DILEMMA])
def test_same_seed_gives_the_same_match(game):
    first = play(game, episodes=4, worlds=2, seed=3, game={"turns": 20})
    second = play(game, episodes=4, worlds=2, seed=3, game={"turns": 20})

    assert by_position(first) == by_position(second)


@pytest.mark.parametrize("game", ["treasurehunt", DILEMMA])
def test_another_seed_gives_another_match(game):
    first = play(game, episodes=4, worlds=2, seed=3, game={"turns": 20})
    second = play(game, episodes=4, worlds=2, seed=4, game={"turns": 20})

    assert not np.array_equal(first.returns, second.returns)


@pytest.mark.parametrize(
    ("game", "settings"),
    [
        ("treasurehunt", {"turns": 20}),
        ("gathering", {"turns": 60}),
        (DILEMMA, {"stop": 0.1}),
    ],
    ids=["treasurehunt", "gathering", "dilemma"],
)
def test_number_of_worlds_does_not_change_a_worlds_first_episode(game, settings):
    two = play(game, episodes=2, worlds=2, game=settings)
    eight = play(game, episodes=8, worlds=8, game=settings)

    assert by_position(two).items() <= by_position(eight).items()


def test_number_of_worlds_does_not_change_later_episodes_of_equal_length():
    two = play("treasurehunt", episodes=6, worlds=2, game={"turns": 10})
    eight = play("treasurehunt", episodes=24, worlds=8, game={"turns": 10})

    assert by_position(two).items() <= by_position(eight).items()


def test_worlds_differ_from_each_other():
    match = play("treasurehunt", episodes=4, worlds=4, game={"turns": 50})

    assert len({tuple(row) for row in match.returns.tolist()}) == 4


# Players.


def test_one_name_seats_that_player_everywhere():
    match = play("treasurehunt", "forager", game={"turns": 2})

    assert match.players == ("forager",) * 3


def test_one_name_in_a_list_seats_that_player_everywhere():
    match = play("treasurehunt", ["forager"], game={"turns": 2})

    assert match.players == ("forager",) * 3


def test_list_seats_players_in_the_order_of_agents():
    match = play(DILEMMA, ["defector", "cooperator"], game={"turns": 4})

    assert match.players == ("defector", "cooperator")
    assert match.returns[0].tolist() == [20.0, 0.0]


@pytest.mark.parametrize("key", [1, "1"], ids=repr)
def test_mapping_seats_players_by_id_and_random_ones_elsewhere(key):
    match = play("treasurehunt", {key: "forager"}, game={"turns": 2})

    assert match.players == ("random", "forager", "random")


def test_player_can_be_a_class():
    match = play(DILEMMA, {0: Defector, 1: Cooperator}, game={"turns": 4})

    assert match.players == ("defector", "cooperator")
    assert match.returns[0].tolist() == [20.0, 0.0]


def test_single_class_seats_that_player_everywhere():
    match = play(DILEMMA, Defector, game={"turns": 4})

    assert match.returns[0].tolist() == [4.0, 4.0]


def test_name_of_a_class_of_players_is_lower_case():
    assert player_name(Defector) == "defector"


def test_better_player_gets_a_higher_return():
    match = play("treasurehunt", ["forager", "random", "random"], episodes=8, worlds=8)

    forager, *others = match.returns.mean(axis=0)
    assert forager > max(others) + 50


def test_unknown_setting_of_the_game_is_answered_with_the_nearest():
    with pytest.raises(ConfigError, match=r"game\.turnz.*turns"):
        play("treasurehunt", game={"turnz": 5})


@pytest.mark.parametrize("history", [(0, 1), (1, -1), (2, 0)], ids=str)
def test_player_that_looks_back_zero_turns_is_refused(history):
    with pytest.raises(ConfigError, match=r"game\.history"):
        play(DILEMMA, game={"history": history})


@pytest.mark.parametrize("settings", [{"episodes": 0}, {"worlds": 0}, {"worlds": -1}])
def test_playing_no_episodes_or_worlds_is_refused(settings):
    (name,) = settings

    with pytest.raises(ConfigError, match=name):
        play("treasurehunt", **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"turns": 20}, "'turns' is a setting of the game: write game={'turns': 20}"),
        (
            {"rounds": 3},
            "'rounds' cannot be set here; settings of the game can: game={'rou",
        ),
        ({"game": 3}, "game must be a group of settings, got 3"),
        (
            {"evaluate.episodes": 3},
            "'evaluate.episodes' cannot be set here; evaluate.turns",
        ),
        ({"game": {"name": "tag"}}, "game.name is 'tag', but the game is 'treasurehunt'"),
    ],
)
def test_settings_are_written_as_in_training(settings, message):
    with pytest.raises(ConfigError) as raised:
        play("treasurehunt", **settings)

    assert message in str(raised.value)


def test_settings_can_be_dotted():
    match = play("treasurehunt", **{"game.turns": 3, "evaluate.turns": 50})

    assert match.episodes[0].turns == 3


def test_a_match_shows_itself_in_a_line():
    match = play("gathering", ["greedy", "random", "random"], game={"turns": 4})

    assert repr(match) == (
        f"<Match of gathering: 3 agents (greedy, random), 1 episode, mean return "
        f"{match.returns.mean():.2f}>"
    )


def test_counts_are_arrays_and_means():
    match = play("gathering", episodes=3, game={"turns": 30})

    zaps = match.counts["zaps"]
    assert zaps.tolist() == [episode.counts["zaps"].tolist() for episode in match.episodes]
    assert zaps.shape == (3, 3)
    counts = match.summary()["counts"]
    assert list(counts) == ["apples", "zaps", "hits"]
    assert counts["zaps"]["mean"] == pytest.approx(zaps.mean())
    assert counts["zaps"]["agents"]["2"] == pytest.approx(zaps[:, 2].mean())


def test_unknown_player_is_answered_with_the_nearest():
    with pytest.raises(ConfigError) as raised:
        play("treasurehunt", "foragr")

    assert str(raised.value) == (
        "unknown player 'foragr' for 'treasurehunt': did you mean 'forager'?"
    )


def test_player_with_no_similar_name_is_answered_with_the_list():
    with pytest.raises(ConfigError) as raised:
        play("treasurehunt", "xyzzy")

    assert str(raised.value) == (
        "unknown player 'xyzzy' for 'treasurehunt': known are forager, random."
    )


def test_wrong_number_of_players_is_refused():
    with pytest.raises(ConfigError) as raised:
        play("treasurehunt", ["random", "forager"])

    assert str(raised.value) == (
        "got 2 players for the 3 agents of 'treasurehunt': name one player for all agents, "
        "or one per agent."
    )


def test_empty_list_of_players_is_refused():
    with pytest.raises(ConfigError, match="got 0 players for the 3 agents of 'treasurehun"):
        play("treasurehunt", [])


def test_unknown_agent_is_refused():
    with pytest.raises(ConfigError) as raised:
        play("treasurehunt", {7: "forager"})

    assert str(raised.value) == "unknown agent '7': known are 0, 1, 2."


def test_all_unknown_agents_are_reported_at_once():
    with pytest.raises(ConfigError) as raised:
        play("treasurehunt", {7: "forager", 8: "forager"})

    assert len(raised.value.problems) == 2
    assert "unknown agent '7'" in str(raised.value)
    assert "unknown agent '8'" in str(raised.value)


def test_player_forgets_as_an_episode_starts():
    match = play(DILEMMA, ["grim", Leaver], episodes=2, worlds=1, game={"turns": 4})

    assert match.returns.tolist() == [[0 + 3 * 5, 5 + 3 * 0], [12, 12]]


def test_player_remembers_within_an_episode():
    match = play(DILEMMA, ["grim", Leaver], episodes=1, worlds=1, game={"turns": 50})

    assert match.returns.tolist() == [[49 * 5, 5]]


def test_player_forgets_only_where_an_episode_starts():
    lengths = {"stop": 0.2, "turns": 1000}
    single = play(DILEMMA, ["grim", "random"], episodes=1, worlds=1, game=lengths)
    several = play(DILEMMA, ["grim", "random"], episodes=40, worlds=4, game=lengths)

    assert by_position(single).items() <= by_position(several).items()


# Invalid actions.


REFUSED = (
    f" (test_play.py, line {Fixed.act.__code__.co_firstlineno}): choose integers from 0 to "
    "3 that are legal in the observation."
)


@pytest.mark.parametrize(
    ("actions", "problem"),
    [
        (np.array([1, 4]), "action 4 in world 1"),
        (np.array([1, -1]), "action -1 in world 1"),
        (np.array([0, 1]), "action 0 in world 0"),
        (np.array([1, 2**40]), f"action {2**40} in world 1"),
    ],
    ids=["too large", "negative", "not allowed", "huge"],
)
def test_illegal_action_of_a_player_is_refused(actions, problem):
    player = type("Wrong", (Fixed,), {"actions": actions})

    with pytest.raises(PlayerError) as raised:
        match_of(entry_of(Narrow), ["random", player])

    assert str(raised.value) == f"the player of agent '1' chose {problem}{REFUSED}"


@pytest.mark.parametrize("game", [Narrow, Corridor], ids=["some legal", "all legal"])
@pytest.mark.parametrize(
    "actions",
    [
        np.array([1.0, 2.5]),
        np.array([np.nan, 1.0]),
        np.array([[1], [1]]),
        np.array([1, 1, 1]),
        np.array(["right", "left"]),
        None,
    ],
    ids=["fractions", "NaN", "a column", "too many", "names", "nothing"],
)
def test_actions_that_are_not_an_array_of_whole_numbers_are_refused(game, actions):
    player = type("Wrong", (Fixed,), {"actions": actions})

    with pytest.raises(PlayerError, match="the player of agent '1' returned"):
        match_of(entry_of(game), ["random", player])


def test_action_of_an_inactive_agent_does_not_count():
    class Idle(Fixed):
        def act(self, observation: Observation, turn: int) -> Any:
            return np.where(observation.active, 0, 99)

    match = play(DILEMMA, Idle, episodes=4, worlds=2, game={"turns": 3})

    assert match.returns.tolist() == [[9.0, 9.0]] * 4


def test_random_player_takes_legal_actions_only():
    match = match_of(entry_of(Narrow), "random", record=True)

    taken = {int(a) for r in match.recordings for a in r.arrays["actions"].ravel()}
    assert taken == {1, 3}


@pytest.mark.parametrize(
    ("action", "error"), [(9, PlayerError), (1, None)], ids=["after an error", "after all"]
)
def test_game_is_closed_after_a_match(action, error):
    built, closed = [], []

    class Closing(grid.GridEngine):
        def close(self) -> None:
            closed.append(self)

    def build(settings: Any, *arguments: int) -> Closing:
        built.append(Closing(Corridor(settings), *arguments))
        return built[-1]

    entry = replace(entry_of(Corridor), build=build)
    player = type("Wrong", (Fixed,), {"actions": np.array([action] * 2)})
    with pytest.raises(error) if error else nullcontext():
        match_of(entry, player)

    assert built
    assert closed == built


# Recordings.


def test_nothing_is_recorded_unless_asked_for():
    assert play("treasurehunt", game={"turns": 3}).recordings == []


def test_every_episode_is_recorded_once():
    match = play(DILEMMA, episodes=7, worlds=3, record=True, game={"stop": 0.2})

    recorded = [(r.world, r.episode) for r in match.recordings]
    assert sorted(recorded) == sorted(positions(match))


def test_recording_is_as_long_as_its_episode():
    match = play(DILEMMA, episodes=7, worlds=3, record=True, game={"stop": 0.2})

    turns = {(e.world, e.number): e.turns for e in match.episodes}
    assert {(r.world, r.episode): r.turns for r in match.recordings} == turns


def test_recording_holds_actions_rewards_counts_and_facts():
    match = play("gathering", record=True, game={"turns": 6, "agents": 2})

    shapes = {name: a.shape for name, a in match.recordings[0].arrays.items()}
    per_agent = ["actions", "active", "rewards", "terminated", "truncated"]
    per_agent += ["counts.apples", "counts.zaps", "counts.hits"]
    per_agent += ["facts.facing", "facts.marks"]
    expected = {**dict.fromkeys(per_agent, (6, 2)), "facts.position": (6, 2, 2)}
    assert shapes.items() >= expected.items()
    assert {shape[0] for shape in shapes.values()} == {6}


def test_recorded_rewards_add_up_to_the_returns():
    match = play("treasurehunt", episodes=5, worlds=2, record=True, game={"turns": 40})

    returns = {(e.world, e.number): e.returns.tolist() for e in match.episodes}
    assert {
        (r.world, r.episode): r.arrays["rewards"].sum(axis=0).tolist()
        for r in match.recordings
    } == returns


def test_recorded_actions_are_those_the_players_chose():
    match = play(DILEMMA, ["defector", "tit_for_tat"], record=True, game={"turns": 3})

    assert match.recordings[0].arrays["actions"].tolist() == [[1, 0], [1, 1], [1, 1]]


def test_recorded_facts_are_taken_after_the_turn():
    match = play(DILEMMA, ["defector", "tit_for_tat"], record=True, game={"turns": 3})

    arrays = match.recordings[0].arrays
    assert np.array_equal(arrays["facts.last"], arrays["actions"])
    assert arrays["facts.turn"].tolist() == [1, 2, 3]


def test_scores_are_recorded_if_the_game_has_them():
    match = match_of(entry_of(Scored), "random", record=True)

    assert match.recordings[0].arrays["scores"].tolist() == [[1.0, 1.0]] * 5


def test_recording_copies_arrays_that_the_game_overwrites():
    class OneBuffer(grid.GridEngine):
        """Rewards 1, 2, 3 … in one array, and has its own clock as a fact."""

        paid = np.zeros((2, 2), np.float32)
        clock = np.zeros(2, np.int64)

        def end_turn(self) -> Outcome:
            outcome = super().end_turn()
            self.clock += 1
            self.paid += outcome.truncated.any(axis=1)[:, None] * -99 + 1
            return replace(outcome, rewards=self.paid)

        def facts(self) -> dict[str, Any]:
            return {"clock": self.clock}

    def build(settings: Any, *arguments: int) -> OneBuffer:
        return OneBuffer(Corridor(settings), *arguments)

    match = match_of(
        replace(entry_of(Corridor), build=build), "random", episodes=2, record=True
    )

    arrays = match.recordings[0].arrays
    assert arrays["rewards"][:4, 0].tolist() == [1, 2, 3, 4]
    assert arrays["facts.clock"].tolist() == [1, 2, 3, 4, 5]


def test_recording_names_agents_and_players():
    match = play("treasurehunt", {1: "forager"}, record=True, game={"turns": 2})

    recording = match.recordings[0]
    assert recording.agents == ("0", "1", "2")
    assert recording.players == ("random", "forager", "random")


def test_recorded_episodes_of_the_first_world_of_a_grid_game_can_be_drawn():
    match = play("treasurehunt", episodes=6, worlds=2, record=True, game={"turns": 3})

    drawn = [(r.world, r.episode) for r in match.recordings if r.pictures is not None]
    assert drawn == [(0, 0), (0, 1), (0, 2)]


def test_only_the_wanted_episodes_of_other_games_are_filmed():
    match = play(LIGHTS, episodes=6, worlds=2, record=True, film=2)

    drawn = [(r.world, r.episode) for r in match.recordings if r.pictures is not None]
    assert drawn == [(0, 0), (0, 1)]


def test_film_without_record_records_the_filmed_episodes_only():
    match = play("treasurehunt", episodes=6, worlds=2, film=1, game={"turns": 3})

    assert [(r.world, r.episode) for r in match.recordings] == [(0, 0)]


def test_film_has_one_frame_per_turn():
    match = play("treasurehunt", film=1, game={"turns": 3, "height": 5, "width": 6})

    frames = list(match.recordings[0].pictures)
    assert [frame.shape for frame in frames] == [(5 * 32, 6 * 32, 3)] * 3


def test_filming_a_game_without_pictures_is_refused():
    with pytest.raises(GameError) as raised:
        play(DILEMMA, film=1)

    assert str(raised.value) == (
        "IteratedPrisonersDilemma has no picture to show: use `rookery evaluate`, or "
        "`rookery record` for a table of every turn."
    )


def test_gif_of_a_match_can_be_read_back(tmp_path: Path):
    match = play("treasurehunt", film=1, game={"turns": 4, "height": 7, "width": 9})
    recording = match.recordings[0]

    recording.write_gif(tmp_path / "match.gif", milliseconds=100)

    with Image.open(tmp_path / "match.gif") as gif:
        assert gif.n_frames == 4
        assert gif.size == recording.film()[0].shape[1::-1]
        assert gif.info["duration"] == 100


def test_recording_of_a_match_can_be_saved_and_loaded(tmp_path: Path):
    match = play("gathering", film=1, game={"turns": 3})
    recording = match.recordings[0]
    recording.save(tmp_path / "episode.safetensors")

    loaded = type(recording).load(tmp_path / "episode.safetensors")

    assert loaded.players == recording.players
    assert loaded.arrays.keys() == recording.arrays.keys()
    assert all(
        np.array_equal(array, recording.arrays[name])
        for name, array in loaded.arrays.items()
    )


@pytest.mark.shows("F5")
def test_matches_of_trained_agents_leave_no_descriptor_behind(tmp_path):
    settings = {"rounds": 1, "turns_per_round": 10, "worlds": 2, "game.turns": 5}
    run = rookery.train("treasurehunt", run=tmp_path / "run", **settings)
    rookery.play("treasurehunt", run.players(), episodes=1, game={"turns": 5})
    gc.collect()  # frees the memory of the training with its last array
    before = len(os.listdir("/proc/self/fd"))

    for _ in range(3):
        rookery.play("treasurehunt", run.players(), episodes=1, game={"turns": 5})

    assert len(os.listdir("/proc/self/fd")) == before
