"""Training progress: the live table in a real terminal, plain lines, rates and totals."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from rookery.api import progress as module
from rookery.api.live_table import LiveTable, returns_line
from rookery.api.progress import Progress
from rookery.cli.app import main
from rookery.runs.log import Totals
from tests.cli.terminal import Screen, Terminal

SETTINGS = [
    "turns_per_round=20",
    "worlds=4",
    "updates_per_round=4",
    "batch_size=16",
    "replay.warmup=32",
    "replay.capacity=400",
    "network.width=16",
    "game.turns=10",
    "workers=0",
]


# A session without training, and a clock that is set by hand.


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def agent_of(
    name: str, scripted: bool = False, samples: bool = False, role: str = "agent"
) -> Any:
    """Return an agent that explores by epsilon, or that samples from a policy."""
    learner = SimpleNamespace(exploration=lambda settings, steps: 1.0 if samples else 0.05)
    return SimpleNamespace(
        id=name,
        is_scripted=scripted,
        learner=learner,
        settings=None,
        spec=SimpleNamespace(role=role),
    )


def progress_of(
    start: int = 0, totals: Totals | None = None, terminal: bool = False, notes: tuple = ()
) -> tuple[Progress, io.StringIO]:
    """Return the progress of a session with two agents that continues from a round."""
    config = SimpleNamespace(
        rounds=300,
        turns_per_round=100,
        worlds=8,
        game=SimpleNamespace(name="hunt"),
        schedule="sync",
    )
    agents = [agent_of("a"), agent_of("b", scripted=True)]
    executor = SimpleNamespace(notes=list(notes))
    session: Any = SimpleNamespace(
        config=config,
        start=start,
        training=SimpleNamespace(agents=agents, executor=executor),
        log=SimpleNamespace(totals=lambda: totals or Totals()),
        last_matches=[],
    )
    output = io.StringIO()
    console = Console(file=output, force_terminal=terminal, width=110, height=40)
    return Progress(console, session, quiet=False), output


def round_of(
    number: int,
    returns: tuple[float, ...] = (),
    evaluation: dict[str, Any] | None = None,
    **learned: Any,
) -> Any:
    """Return a round of one second, in which agent a learned and b did not."""
    counts = {"zaps": np.array([2.0, 0.0])}
    episode = SimpleNamespace(returns=np.array(returns), counts=counts)
    played = {"a": {"epsilon": 0.25, "lag": 1.0}, "b": {"lag": 0.0}}
    return SimpleNamespace(
        number=number,
        seconds=1.0,
        played=SimpleNamespace(metrics=played, episodes=[episode] if returns else []),
        learned=SimpleNamespace(metrics={"a": {"updates": 5.0, **learned}}),
        matches=[evaluation] if evaluation else [],
    )


def test_after_resume_rates_and_time_left_count_this_session_only(clock: Clock) -> None:
    progress, output = progress_of(start=200)
    for number in range(201, 212):
        clock.now += 1
        progress.show(round_of(number))

    # Lines are at least 10 seconds apart.
    assert output.getvalue() == (
        "round 210 of 300  800 turns/s  5 updates/s  1 min 30 s left  "
        "no episode has finished yet\n"
    )


def test_the_live_table_after_resume_counts_this_session_only(clock: Clock) -> None:
    progress, output = progress_of(start=200, terminal=True)
    with progress:
        clock.now += 1
        progress.show(round_of(201, returns=(1.5, -2.0), loss=0.125, q_value=3.0))

    screen = Screen()
    screen.feed(output.getvalue())
    lines = str(screen).splitlines()
    assert re.fullmatch(r"hunt ━.* 201/300 rounds \S+ elapsed \S+ left", lines[0])
    assert lines[1].strip() == "800 turns/s  5 updates/s"
    assert lines[2].split() == ["agent", "return", "epsilon", "loss", "value", "zaps"]
    assert lines[3].split() == ["a", "1.50", "0.25", "0.12", "3.00", "2.00"]
    assert lines[4].split() == ["b", "-2.00", "0.00"]


def test_the_last_evaluation_stays_on_the_screen(clock: Clock) -> None:
    progress, output = progress_of(terminal=True)
    means = {"greedy": {"mean": 3.0, "std": 0.5}, "as_trained": {"mean": 2.0, "std": 1.0}}
    with progress:
        progress.show(round_of(1, evaluation={"round": 1, "evaluations": means}))
        progress.show(round_of(2, evaluation={"round": 2, "evaluations": {}}))  # a probe

    screen = Screen()
    screen.feed(output.getvalue())
    assert (
        "evaluation after round 1: trained 3.00 (std 0.50), as_trained 2.00 (std 1.00)"
        in str(screen)
    )


def test_the_evaluation_of_the_last_round_is_shown_when_training_ends(
    clock: Clock,
) -> None:
    progress, output = progress_of(terminal=True)
    evaluations = {"greedy": {"mean": 3.0, "std": 0.5}}
    with progress:
        progress.show(round_of(1, evaluation={"round": 1, "evaluations": evaluations}))
        session: Any = progress._session
        session.last_matches = [{"round": 2, "evaluations": evaluations}]

    screen = Screen()
    screen.feed(output.getvalue())
    assert "evaluation after round 2: trained 3.00" in str(screen)


def test_no_return_is_minus_zero() -> None:
    assert returns_line({"0": -0.01, "1": -1.0}) == "return of 0: 0.0  1: -1.0"


# The table of the agents.


def table_of(agents: list[Any], metrics: Any, width: int = 80, height: int = 24) -> Any:
    table = LiveTable(agents, "pipelined")
    return [line.plain for line in table.lines(metrics, ["counts/zaps"], width, height)]


def test_agents_that_sample_from_a_policy_show_entropy_and_not_epsilon() -> None:
    policy, values = agent_of("p", samples=True), agent_of("v")
    metrics = {"epsilon": 1.0, "entropy": 1.6, "return": 2.0}

    only_policies = table_of([policy], {"p": metrics})
    both = table_of([policy, values], {"p": metrics, "v": metrics})

    assert only_policies[0].split() == [
        "agent",
        "return",
        "entropy",
        "loss",
        "value",
        "zaps",
    ]
    assert both[0].split() == [
        "agent",
        "return",
        "epsilon",
        "entropy",
        "loss",
        "value",
        "zaps",
    ]
    assert both[1].split() == ["p", "2.00", "1.60"]
    assert both[2].split() == ["v", "2.00", "1.00"]


@pytest.mark.parametrize("count", [8, 30, 100])
def test_many_agents_fit_into_the_rows_of_a_terminal(count: int) -> None:
    agents = [agent_of(str(i)) for i in range(count)]
    metrics = {str(i): {"return": float(i), "counts/zaps": 1.0} for i in range(count)}

    lines = table_of(agents, metrics)

    assert len(lines) + 3 <= 24  # with the bar, the rates and an evaluation
    if count == 8:
        assert [line.split()[0] for line in lines] == ["agent", *metrics]
    else:
        assert lines[0].split()[:3] == [str(count), "agents", "return"]
        assert lines[2].split() == ["lowest", "0.00", "1.00"]
        assert lines[4].split() == ["highest", f"{count - 1:.2f}", "1.00"]
        best = ", ".join(str(count - i) for i in (1, 2, 3))
        assert lines[5] == f"best: {best}   worst: 0, 1, 2"


def test_many_agents_are_summarised_by_role() -> None:
    agents = [agent_of(str(i), role="prey" if i else "hunter") for i in range(40)]
    metrics = {str(i): {"return": float(bool(i))} for i in range(40)}

    lines = table_of(agents, metrics)

    assert lines[1].split() == ["mean", "of", "1", "hunter", "0.00"]
    assert lines[2].split() == ["mean", "of", "39", "prey", "1.00"]


def test_columns_that_do_not_fit_are_named() -> None:
    lines = table_of([agent_of("a")], {"a": {"return": 1.0}}, width=20)

    assert lines[0].split() == ["agent", "return"]
    assert lines[-1] == "not shown: epsilon, loss, value, zaps"


def test_a_plain_line_sums_up_many_returns() -> None:
    line = returns_line({str(i): float(i) for i in range(30)})

    assert line == (
        "return of 30 agents: mean 14.5, lowest 0.0 (agent 0), highest 29.0 (agent 29)"
    )


def test_totals_are_of_the_whole_run(clock: Clock) -> None:
    progress, _ = progress_of(start=200, totals=Totals(updates=1000, seconds=250.0))

    for number in (201, 202):
        progress.show(round_of(number))

    assert progress.totals == Totals(updates=1010, seconds=252.0)


def test_returns_are_means_over_recent_episodes(clock: Clock) -> None:
    progress, output = progress_of(start=298)
    progress.show(round_of(299, returns=(1.0, 10.0)))
    progress.show(round_of(300, returns=(2.0, 20.0)))

    assert output.getvalue().endswith("0 s left  return of a: 1.5  b: 15.0\n")


def test_notes_of_the_executor_are_printed_above_the_table(clock: Clock) -> None:
    progress, output = progress_of(terminal=True, notes=("2 workers from here on",))
    with progress:
        progress.show(round_of(1))
        progress.show(round_of(2))

    screen = Screen()
    screen.feed(output.getvalue())
    assert str(screen).splitlines()[0] == "2 workers from here on"
    assert str(screen).count("agent") == 1


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.6, "1 min 00 s"), (3599, "59 min 59 s"), (7380, "2 h 03 min")],
)
def test_durations_are_shown_in_two_units(seconds: float, text: str) -> None:
    assert module.duration(seconds) == text


# A real run in a real terminal.


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator[Any]:
    opened: list[Terminal] = []

    def start(*arguments: str) -> Terminal:
        opened.append(Terminal(*arguments, cwd=tmp_path))
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.kill()


def table_on(screen: str) -> list[list[str]]:
    """Return the rows of the live table by their cells; there must be one table."""
    lines = screen.splitlines()
    (header,) = [i for i, line in enumerate(lines) if line.startswith("agent  return")]
    assert lines[header].split() == ["agent", "return", "epsilon", "loss", "value"]
    return [line.split() for line in lines[header + 1 : header + 4]]


@pytest.mark.processes
def test_a_terminal_shows_the_bar_the_rates_and_every_agent(terminals: Any) -> None:
    evaluating = ["evaluate.every_rounds=3", "evaluate.episodes=2"]
    arguments = (*SETTINGS, *evaluating, "rounds=6", "--run", "mine")
    terminal = terminals("train", "treasurehunt", *arguments)

    code = terminal.read_until()

    screen = str(terminal.screen)
    assert code == 0, screen
    assert re.search(r"^memory: .* MiB \(", screen, re.MULTILINE)
    assert re.search(
        r"^treasurehunt ━+ 6/6 rounds \S+ elapsed 0:00:00 left$", screen, re.MULTILINE
    )
    rates = re.search(r"^ *([\d,]+) turns/s  ([\d,]+) updates/s$", screen, re.MULTILINE)
    assert rates
    assert int(rates[1].replace(",", "")) > 0
    assert int(rates[2].replace(",", "")) > 0
    assert screen.count("evaluation after round") == 1
    assert "evaluation after round 6: trained" in screen
    rows = table_on(screen)
    assert [row[0] for row in rows] == ["0", "1", "2"]
    for row in rows:
        assert len([float(cell) for cell in row[1:]]) == 4
    assert screen.count("turns/s") == 1  # every frame replaces the one before
    assert screen.endswith(
        "The run: mine\nNext: rookery evaluate mine   rookery replay mine\n"
    )


@pytest.mark.processes
def test_ctrl_c_in_a_terminal_stops_and_resume_continues_there(
    terminals: Any, tmp_path: Path
) -> None:
    arguments = ("train", "treasurehunt", *SETTINGS, "rounds=100000", "--run", "mine")
    terminal = terminals(*arguments)
    assert terminal.read_until(lambda screen: "turns/s" in screen) == -1
    terminal.press_ctrl_c()

    code = terminal.read_until()

    screen = str(terminal.screen)
    assert code == 75, screen
    assert "stopping: saving the last complete round" in terminal.output
    stopped, following = screen.splitlines()[-2:]  # below the table
    match = re.fullmatch(
        r"stopped after (\d+) complete rounds, which are .* mine.", stopped
    )
    assert match
    assert following == "resume: rookery resume mine   evaluate: rookery evaluate mine"

    terminal = terminals("resume", "mine")
    assert terminal.read_until(lambda screen: "turns/s" in screen) == -1
    done = re.search(r" (\d+)/100000 ", str(terminal.screen))
    assert done
    assert int(done[1]) > int(match[1])
    terminal.press_ctrl_c()
    assert terminal.read_until() == 75


@pytest.mark.processes
def test_a_terminal_shows_every_seed(terminals: Any) -> None:
    arguments = ("train", "treasurehunt", *SETTINGS, "rounds=6", "seeds=3..4")
    terminal = terminals(*arguments, "--run", "mine")

    code = terminal.read_until()

    screen = str(terminal.screen)
    assert code == 0, screen
    lines = [re.sub("━+", "━", " ".join(line.split())) for line in screen.splitlines()]
    assert "seeds ━ 2 of 2 done" in lines
    for seed in (3, 4):
        (line,) = [line for line in lines if line.startswith(f"seed {seed} ")]
        assert re.fullmatch(r"seed \d ━ round 6 of 6 return -?\d+\.\d\d done", line)


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--json"])
    assert ended.value.code == 0
    return json.loads(capsys.readouterr().out)


def test_the_summary_of_a_resumed_run_is_of_the_whole_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("train", "treasurehunt", *SETTINGS, "rounds=6", "--run")
    whole = run_json(capsys, *arguments, str(tmp_path / "whole"))
    show = Progress.show

    def stop_after_four(self: Progress, result: Any) -> None:
        show(self, result)
        if result.number == 4:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Progress, "show", stop_after_four)
        with pytest.raises(SystemExit):
            main([*arguments, str(tmp_path / "stopped")])
    capsys.readouterr()

    resumed = run_json(capsys, "resume", str(tmp_path / "stopped"))

    counts = ("rounds", "turns", "updates")
    assert {key: resumed[key] for key in counts} == {key: whole[key] for key in counts}
    assert (resumed["rounds"], resumed["turns"]) == (6, 120)
    lines = (tmp_path / "stopped" / "metrics.jsonl").read_text().splitlines()
    seconds = sum(json.loads(line)["seconds"] for line in lines)
    assert resumed["seconds"] == pytest.approx(seconds)

    again = run_json(capsys, "resume", str(tmp_path / "stopped"))
    assert {key: again[key] for key in counts} == {key: whole[key] for key in counts}
    assert again["seconds"] == pytest.approx(seconds)
