"""`rookery.nodes`: what the machines of a cluster compute with."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from rookery.errors import checked
from rookery.stdio import guarded
from rookery.sweeps.cluster import Lost
from rookery.sweeps.machine import default_facts, difference

Facts = dict[str, Any]


@dataclass(frozen=True)
class Nodes:
    """This machine, and the nodes of a cluster."""

    here: Facts
    """Cores, free memory, versions and bits of this machine."""
    nodes: list[Facts]
    """The same of every node, with its name (`node`) and why it gets no cells (`why`)."""

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"here": self.here, "nodes": self.nodes}


@guarded()
def nodes(address: str | None = None) -> Nodes:
    """Return cores, memory, versions and bits of this machine and of a cluster's nodes.

    Nodes with other versions or other bits than this machine get no cells of a sweep.

    Args:
        address: HOST:PORT of a Ray cluster; by default RAY_ADDRESS. Without any, only this
            machine is described.
    """
    checked("address", address, str, type(None))
    is_cluster = address or os.environ.get("RAY_ADDRESS")
    found = _found(address) if is_cluster else []
    here = default_facts()
    return Nodes(here, [_compared(name, here, facts) for name, facts in found])


def _found(address: str | None) -> list[tuple[str, Facts | str]]:
    """Return the facts of every node, or why they are not known."""
    from rookery.sweeps.ray_cells import check_ray, connected

    check_ray(address)
    with connected(address) as cluster:
        found = cluster.describe()
    return [(node.name, x.why if isinstance(x, Lost) else x) for node, x in found]


def _compared(name: str, here: Facts, facts: Facts | str) -> Facts:
    if isinstance(facts, str):
        return {"node": name, "why": facts}
    return {"node": name, **facts, "why": difference(here, facts)}
