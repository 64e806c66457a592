"""`rookery nodes`: what the machines of a cluster compute with."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer
from rich.table import Table

from rookery.cli.options import AsJson
from rookery.printing import err, out, print_json, tell

COLUMNS = ("rookery", "torch", "numpy", "numba", "python", "processor")


def nodes(
    address: Annotated[
        str | None,
        typer.Argument(
            metavar="ADDRESS",
            help="HOST:PORT of a Ray cluster; by default RAY_ADDRESS. Without any, only "
            "this machine is shown.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show cores, memory, versions and bits of this machine and of a cluster's nodes.

    Nodes with other versions or other bits than this machine get no cells of a sweep.
    """
    from rookery.sweeps.machine import default_facts

    with err.status("computing the bits of every machine …"):
        rows = [] if not address and not os.environ.get("RAY_ADDRESS") else _nodes(address)
        here = default_facts()
    described = [_compared(name, here, facts) for name, facts in rows]
    if as_json:
        print_json({"here": here, "nodes": described})
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("machine", "cores", "free GiB", *COLUMNS, "bits"):
        table.add_column(title, overflow="fold")
    table.add_row(*_row("this machine", here))
    for node in described:
        if "bits" in node:
            table.add_row(*_row(node["node"], node))
    out.print(table)
    for node in described:
        if node["why"]:
            tell(f"{node['node']} gets no cells: {node['why']}.")


def _nodes(address: str | None) -> list[tuple[str, dict[str, Any] | str]]:
    """Return the facts of every node, or why they are not known."""
    from rookery.sweeps.cluster import Lost
    from rookery.sweeps.ray_cells import check_ray, connected

    check_ray(address)
    with connected(address) as cluster:
        found = cluster.describe()
    return [(node.name, x.why if isinstance(x, Lost) else x) for node, x in found]


def _compared(
    name: str, here: dict[str, Any], facts: dict[str, Any] | str
) -> dict[str, Any]:
    from rookery.sweeps.machine import difference

    if isinstance(facts, str):
        return {"node": name, "why": facts}
    return {"node": name, **facts, "why": difference(here, facts)}


def _row(name: str, facts: dict[str, Any]) -> list[str]:
    free = f"{facts['free_bytes'] / 2**30:.1f}"
    versions = [str(facts[column]) for column in COLUMNS]
    return [name, str(facts["cores"]), free, *versions, facts["bits"][:12]]
