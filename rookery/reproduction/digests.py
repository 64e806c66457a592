"""The digests that results had where they were measured.

A digest is the same again only where all of `machine` is: the bits of the machine
(training/bits.py) and the versions of what computes. Elsewhere there is nothing to compare
it with, and a result stands or falls by its tolerance. `rookery reproduce NAME --json`
prints all that an entry needs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rookery.runs.run import Run
from rookery.runs.seal import DECIDES_BITS, read_seal


@dataclass(frozen=True)
class Fingerprint:
    """The digest of all seeds of a result, and what it was computed with."""

    digest: str
    machine: Mapping[str, Any]
    """The hash of the machine's bits, and versions."""


def fingerprint(runs: Sequence[Run]) -> Fingerprint:
    """Return the fingerprint of the runs of all seeds, in the order of their seeds."""
    begun = [(read_seal(run.path) or {}).get("begun", {}) for run in runs]
    machine = {name: begun[0].get(name) for name in DECIDES_BITS}
    machine["bits"] = _hash([str(each.get("bits", "")) for each in begun])
    return Fingerprint(_hash([run.digest()["run"] for run in runs]), machine)


def expected_digest(name: str, machine: Mapping[str, Any]) -> str | None:
    """Return the digest that a result had with these bits and versions; None if unknown."""
    for recorded in RECORDED.get(name, ()):
        if recorded.machine == machine:
            return recorded.digest
    return None


def _hash(texts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


RECORDED: dict[str, tuple[Fingerprint, ...]] = {}
"""By the name of the result."""
