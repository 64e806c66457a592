"""Evaluations as text: tables that fit a width, for a few agents or for a hundred.

If everything fits, there is one table with a column per agent. If not, agents get a table
of their own: turned, with one row per agent, or, if there are many, by role and as the
lowest, middle and highest of them. Columns that do not fit are put below; no cell is cut.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from rich.cells import cell_len

from rookery.api.evaluate import Evaluation
from rookery.api.text_table import TextTable
from rookery.evaluation.play import Match
from rookery.specs import AgentSpec

MOST_ROWS = 16
"""With more agents than this, they are summarised instead of listed."""
MOST_LABEL = 32
"""A longer label of a line-up is shown as the number of seats of each player."""
EXTREMES = 3
"""How many of the best and worst agents are named."""
FEW_SEEDS = 5
NO_VALUE = "–"


def evaluation_text(evaluation: Evaluation, width: int | None = None) -> str:
    """Return the tables and notes of an evaluation; by default as wide as they need be."""
    tables, notes = evaluation_tables(evaluation, width)
    texts = ["\n".join(table.lines()) for table in tables]
    return "\n\n".join([*texts, "\n".join(notes)])


def evaluation_tables(
    evaluation: Evaluation, width: int | None = None
) -> tuple[list[TextTable], list[str]]:
    """Return the tables of an evaluation that fit a width, and notes that explain them."""
    if not evaluation.has_seeds:
        return matches_tables(evaluation.matches, width)
    tables: list[TextTable] = []
    if width is None:
        for seed, matches in evaluation.results.items():
            first, *rest = matches_tables(matches, None)[0]
            first.title = seed
            tables += [first, *rest]
    else:
        tables += _seeds_table(evaluation).fitted(width)
    tables += _aggregate_table(evaluation).fitted(width)
    if len(evaluation.agents) <= MOST_ROWS:
        tables += _aggregate_agents(evaluation).fitted(width)
    return tables, _aggregate_notes(evaluation)


def matches_tables(
    matches: Mapping[str, Match], width: int | None = None
) -> tuple[list[TextTable], list[str]]:
    """Return the tables of some line-ups that fit a width, and notes on them."""
    summary, agents = _summary_table(matches), _agent_columns(matches)
    notes = [
        "mean: return per episode and agent; std: its standard deviation over episodes"
    ]
    counts = list(next(iter(matches.values())).counts)
    if counts:
        notes.append(f"{', '.join(counts)}: per episode and agent")
    whole = _beside(summary, agents)
    specs = next(iter(matches.values())).agents
    is_mixed = len(matches) == 1 and len(set(next(iter(matches.values())).players)) > 1
    turns_anyway = is_mixed and len(specs) <= MOST_ROWS
    if width is None or (whole.width() <= width and not turns_anyway):
        return [whole], notes
    tables = summary.fitted(width)
    if len(specs) <= MOST_ROWS:
        return [*tables, *_turned(matches, specs).fitted(width)], notes
    if 1 < len({spec.role for spec in specs}) <= MOST_ROWS:
        tables += _by_role(matches, specs).fitted(width)
    tables += _distribution(matches, specs).fitted(width)
    notes.append("every agent: --wide or --json")
    return tables, notes


def short_label(label: str) -> str:
    """Return a line-up's label; a long list of players as how many there are of each."""
    if cell_len(label) <= MOST_LABEL or "," not in label:
        return label
    return ", ".join(
        f"{count} × {name}" for name, count in Counter(label.split(",")).items()
    )


def _summary_table(matches: Mapping[str, Match]) -> TextTable:
    counts = list(next(iter(matches.values())).counts)
    table = TextTable("players", ["episodes", "mean", "std", *counts])
    for label, match in matches.items():
        summary = match.summary()
        means = [summary["counts"][name]["mean"] for name in counts]
        cells = [str(len(match.episodes)), f"{summary['mean']:.2f}"]
        cells += [_deviation(match, summary["std"]), *(f"{x:.2f}" for x in means)]
        table.rows.append((short_label(label), cells))
    return table


def _agent_columns(matches: Mapping[str, Match]) -> TextTable:
    specs = next(iter(matches.values())).agents
    table = TextTable("players", [f"agent {spec.id}" for spec in specs])
    for label, match in matches.items():
        means = match.returns.mean(axis=0)
        table.rows.append((short_label(label), [f"{mean:.2f}" for mean in means]))
    return table


def _beside(left: TextTable, right: TextTable) -> TextTable:
    rows = [
        (label, [*cells, *others])
        for (label, cells), (_, others) in zip(left.rows, right.rows, strict=True)
    ]
    return TextTable(left.key, [*left.columns, *right.columns], rows)


def _turned(matches: Mapping[str, Match], specs: Sequence[AgentSpec]) -> TextTable:
    """Return a table with one row per agent and one column per line-up."""
    if len(matches) == 1:
        return _each_agent(next(iter(matches.values())), specs)
    columns = [short_label(label) for label in matches]
    table = TextTable("agent", columns, title="mean return of each agent")
    means = [match.returns.mean(axis=0) for match in matches.values()]
    for i, name in enumerate(_names(specs)):
        table.rows.append((name, [f"{values[i]:.2f}" for values in means]))
    return table


def _each_agent(match: Match, specs: Sequence[AgentSpec]) -> TextTable:
    """Return a table with one row per agent: its player, its return and its counts."""
    counts = match.counts
    table = TextTable("agent", ["player", "mean", "std", *counts], title="each agent")
    degrees = 1 if len(match.episodes) > 1 else 0
    for i, name in enumerate(_names(specs)):
        returns = match.returns[:, i]
        cells = [match.players[i], f"{returns.mean():.2f}"]
        cells.append(_deviation(match, returns.std(ddof=degrees)))
        cells += [f"{values[:, i].mean():.2f}" for values in counts.values()]
        table.rows.append((name, cells))
    return table


def _deviation(match: Match, value: float) -> str:
    """Return a standard deviation over episodes as text; one episode has none."""
    return f"{value:.2f}" if len(match.episodes) > 1 else NO_VALUE


def _names(specs: Sequence[AgentSpec]) -> list[str]:
    """Return the agents' ids, with their roles if these differ."""
    has_roles = len({spec.role for spec in specs}) > 1
    return [f"{spec.id} ({spec.role})" if has_roles else spec.id for spec in specs]


def _by_role(matches: Mapping[str, Match], specs: Sequence[AgentSpec]) -> TextTable:
    """Return a table with one row per role and one column per line-up."""
    columns = [short_label(label) for label in matches]
    table = TextTable("role", columns, title="mean return of each role")
    means = [match.returns.mean(axis=0) for match in matches.values()]
    for role, count in Counter(spec.role for spec in specs).items():
        members = [spec.role == role for spec in specs]
        cells = [f"{values[members].mean():.2f}" for values in means]
        table.rows.append((f"{role} ({count})", cells))
    return table


def _distribution(matches: Mapping[str, Match], specs: Sequence[AgentSpec]) -> TextTable:
    """Return a table of how the agents of a line-up differ."""
    columns = ["lowest", "25 %", "median", "75 %", "highest"]
    title = f"mean returns of the {len(specs)} agents"
    table = TextTable("players", [*columns, "best", "worst"], title=title)
    for label, match in matches.items():
        means = match.returns.mean(axis=0)
        cells = [f"{x:.2f}" for x in np.percentile(means, [0, 25, 50, 75, 100])]
        order = np.argsort(-means, kind="stable")
        for extremes in (order[:EXTREMES], order[::-1][:EXTREMES]):
            cells.append(", ".join(specs[i].id for i in extremes))
        table.rows.append((short_label(label), cells))
    return table


def _seeds_table(evaluation: Evaluation) -> TextTable:
    """Return a table with one row per seed and one column per line-up."""
    first = next(iter(evaluation.results.values()))
    columns = [short_label(label) for label in first]
    table = TextTable("seed", columns, title="mean return of each seed")
    for seed, matches in evaluation.results.items():
        means = [f"{match.returns.mean():.2f}" for match in matches.values()]
        table.rows.append((seed, means))
    return table


def _aggregate_table(evaluation: Evaluation) -> TextTable:
    """Return a table with one row per line-up: returns and counts over all seeds."""
    aggregates = evaluation.aggregate()
    counts = list(next(iter(aggregates.values())).counts)
    table = TextTable("players", ["seeds", "mean", *counts], title="over all seeds")
    for label, aggregate in aggregates.items():
        cells = [str(aggregate.seeds), str(aggregate.mean)]
        cells += [str(aggregate.counts[name]) for name in counts]
        table.rows.append((short_label(label), cells))
    return table


def _aggregate_agents(evaluation: Evaluation) -> TextTable:
    """Return a table with one row per agent and one column per line-up, over all seeds."""
    aggregates = evaluation.aggregate()
    columns = [short_label(label) for label in aggregates]
    table = TextTable("agent", columns, title="mean return of each agent over all seeds")
    for spec, name in zip(evaluation.agents, _names(evaluation.agents), strict=True):
        cells = [str(aggregate.agents[spec.id]) for aggregate in aggregates.values()]
        table.rows.append((name, cells))
    return table


def _aggregate_notes(evaluation: Evaluation) -> list[str]:
    seeds = len(evaluation.results)
    if seeds == 1:
        return ["one seed says nothing about others: there is no interval"]
    notes = [
        "over all seeds: interquartile mean [95 % bootstrap interval] with one value per "
        "seed, the mean over its episodes and agents"
    ]
    if seeds < FEW_SEEDS:
        notes.append(f"{seeds} seeds are few: the interval is rough and too narrow")
    if len(evaluation.agents) > MOST_ROWS:
        notes.append("every agent: --json")
    return notes
