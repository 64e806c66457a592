"""Tables of evaluations: they fit the terminal, and no number is cut."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rookery.api.evaluate import Evaluation
from rookery.api.evaluation_text import evaluation_text, matches_tables, short_label
from rookery.api.text_table import TextTable
from rookery.evaluation.play import Match
from rookery.games.episodes import Episode
from rookery.specs import AgentSpec
from tests.cli.terminal import Terminal

LINEUPS = ("trained", "as_trained", "random", "peaceful")


def match_of(agents: int, roles: tuple[str, ...] = ("agent",), number: int = 0) -> Match:
    """Return a match of two episodes, in which agent i gets 100 i, then 100 i + 50."""
    names = [(str(i), roles[i % len(roles)]) for i in range(agents)]
    specs = tuple(AgentSpec(name, role, {}, ("left", "right")) for name, role in names)
    values = np.arange(agents) * 100.0 + number
    episodes = [
        Episode(0, i, 9, values + 50 * i, {"zaps": values / 1000, "apples": values})
        for i in range(2)
    ]
    return Match("tag", specs, ("trained",) * agents, episodes)


def text_of(match: Match, width: int | None, lineups: tuple[str, ...] = LINEUPS) -> str:
    results = {"": dict.fromkeys(lineups, match)}
    return evaluation_text(Evaluation("tag", None, None, results), width)


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("agents", [1, 3, 8, 30, 100])
def test_tables_fit_the_width_and_no_number_is_cut(agents: int, width: int) -> None:
    tables, _ = matches_tables(dict.fromkeys(LINEUPS, match_of(agents)), width)

    lines = [line for table in tables for line in table.lines()]
    assert max(map(len, lines)) <= width
    assert "…" not in "".join(lines)
    numbers = {f"{mean:.2f}" for mean in match_of(agents).returns.mean(axis=0)}
    cells = {cell for table in tables for _, row in table.rows for cell in row}
    if agents <= 16:
        assert numbers <= cells
    else:  # the best and the worst are named
        last = agents - 1
        assert {f"{25:.2f}", f"{100 * last + 25:.2f}", "0, 1, 2"} <= cells
        assert f"{last}, {last - 1}, {last - 2}" in cells


def test_few_agents_are_columns_of_one_table() -> None:
    assert text_of(match_of(2), 80, ("random",)) == (
        "players  episodes   mean    std  zaps  apples  agent 0  agent 1\n"
        "random          2  75.00  35.36  0.05   50.00    25.00   125.00\n"
        "\n"
        "mean: return per episode and agent; std: its standard deviation over episodes\n"
        "zaps, apples: per episode and agent"
    )


def test_one_episode_has_no_standard_deviation() -> None:
    match = match_of(2)
    match.episodes = match.episodes[:1]

    for width in (None, 40):
        tables, _ = matches_tables({"random": match}, width)
        deviations = [
            cells[table.columns.index("std")]
            for table in tables
            if "std" in table.columns
            for _, cells in table.rows
        ]
        assert set(deviations) == {"–"}


def test_more_agents_than_fit_are_rows() -> None:
    _, agents, _ = text_of(match_of(8), 80).split("\n\n")

    assert agents.splitlines()[:3] == [
        "mean return of each agent",
        "agent  trained  as_trained  random  peaceful",
        "0        25.00       25.00   25.00     25.00",
    ]
    assert len(agents.splitlines()) == 2 + 8


def test_many_agents_are_grouped_by_role_and_summarised() -> None:
    text = text_of(match_of(30, roles=("hunter", "prey")), 80)

    assert "mean return of each role\nrole         trained" in text
    assert "hunter (15)  1425.00" in text
    assert "prey (15)    1525.00" in text
    assert "mean returns of the 30 agents\nplayers     lowest    25 %   median" in text
    assert text.endswith("every agent: --wide or --json")


def test_without_a_width_every_agent_is_in_one_row() -> None:
    header, row, *_ = text_of(match_of(100), None).splitlines()

    assert header.endswith("agent 98  agent 99")
    assert row.endswith("9825.00   9925.00")


def test_a_mixed_line_up_shows_who_played_each_agent() -> None:
    match = match_of(2)
    match.players = ("trained", "random")

    tables, _ = matches_tables({"trained,random": match}, 80)

    assert tables[1].lines()[1:] == [
        "agent   player    mean    std  zaps  apples",
        "0      trained   25.00  35.36  0.00    0.00",
        "1       random  125.00  35.36  0.10  100.00",
    ]


def test_a_long_label_gives_the_number_of_each_player() -> None:
    assert short_label("a,b") == "a,b"
    assert short_label(",".join(["trained"] * 2 + ["random"] * 28)) == (
        "2 × trained, 28 × random"
    )


def test_seeds_are_rows_and_an_aggregate() -> None:
    results = {f"seed-{i}": {"trained": match_of(2, number=i)} for i in range(3)}

    text = evaluation_text(Evaluation("tag", "runs/x", 4, results), 80)

    seeds, whole, agents, notes = text.split("\n\n")
    assert seeds.splitlines()[2].split() == ["seed-0", "75.00"]
    assert whole.splitlines()[2].split()[:5] == [
        "trained",
        "3",
        "76.00",
        "[75.00,",
        "77.00]",
    ]
    assert agents.splitlines()[3].split() == ["1", "126.00", "[125.00,", "127.00]"]
    assert "with one value per seed" in notes
    assert notes.endswith("3 seeds are few: the interval is rough and too narrow")


def test_columns_that_do_not_fit_are_put_below() -> None:
    table = TextTable("key", ["first", "second"], [("a", ["1", "2"])], "title")

    assert [part.lines() for part in table.fitted(12)] == [
        ["title", "key  first", "a        1"],
        ["key  second", "a         2"],
    ]


@pytest.mark.processes
def test_thirty_agents_in_a_real_terminal(tmp_path: Path) -> None:
    room = ["game.width=30", "game.height=30", "game.turns=5"]
    command = ["evaluate", "treasurehunt", "game.agents=30", "evaluate.episodes=1", *room]
    terminal = Terminal(*command, cwd=tmp_path, rows=24, columns=80)

    assert terminal.read_until() == 0

    screen = str(terminal.screen).rstrip().splitlines()
    assert max(map(len, screen)) <= 80
    assert len(screen) <= 24
    assert "mean returns of the 30 agents" in screen
