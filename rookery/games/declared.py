"""What a game declares of its agents: looked at once, before the first turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from rookery.specs import AgentSpec

NUMBERS = "biuf"
"""Kinds of types that networks read: bools, integers and floats."""


def faults_of(agents: Sequence[AgentSpec]) -> Iterator[tuple[str, str]]:
    """Say what is wrong with a game's agents, and what to do, one after the other."""
    ids = [spec.id for spec in agents]
    if not ids or len(set(ids)) < len(ids):
        yield f"has agents {ids}", "give each agent an id of its own"
    for spec in agents:
        if not spec.parts or spec.num_actions < 1:
            yield (
                f"gives agent '{spec.id}' {len(spec.parts)} parts and {spec.num_actions} "
                "actions",
                "declare at least one of each",
            )
        yield from _faults_of_parts(spec)


def _faults_of_parts(spec: AgentSpec) -> Iterator[tuple[str, str]]:
    for name, part in spec.parts.items():
        if part.dtype.kind not in NUMBERS:
            yield (
                f"declares part '{name}' of agent '{spec.id}' as {part.dtype}",
                "declare bools, integers or floats",
            )
        if len(part.shape) == 3 and not prod(part.shape):
            yield (
                f"declares part '{name}' of agent '{spec.id}' as {part}, an empty picture",
                "give each side at least 1, or leave the part out",
            )
    if not any(prod(part.shape) for part in spec.parts.values()):
        seen = ", ".join(f"'{name}' {part}" for name, part in spec.parts.items())
        yield (
            f"shows agent '{spec.id}' nothing: {seen}",
            "declare a part with at least one number, even if it is always 0",
        )
