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


VERSIONS = {
    "arithmetic": 3,
    "torch": "2.13.0+cpu",
    "numpy": "2.4.6",
    "numba": "0.68.1",
    "llvmlite": "0.50.0",
}
"""The versions that the digests below were computed with."""
RECORDED: dict[str, tuple[Fingerprint, ...]] = {
    "climbing-independent": (
        Fingerprint(
            "b331640392434523733d1fa43e954f2ad98dec81dc98efc7e7059a0e4e60f112",
            VERSIONS
            | {"bits": "b7a481c7121caafc866ee0c290e40b86c8dcdb52ade64e833d7acdd6e5e16e1c"},
        ),
    ),
    "climbing-hysteretic": (
        Fingerprint(
            "7928064dff26164909820349cf02d75839749d66c192db978ebbc35dcf20a256",
            VERSIONS
            | {"bits": "b7a481c7121caafc866ee0c290e40b86c8dcdb52ade64e833d7acdd6e5e16e1c"},
        ),
    ),
    "climbing-lenient": (
        Fingerprint(
            "c2cb9803e8c22acaad429be5e9a219b7aadd86c0f61150fea5d10b9bedb1e2b3",
            VERSIONS
            | {"bits": "b7a481c7121caafc866ee0c290e40b86c8dcdb52ade64e833d7acdd6e5e16e1c"},
        ),
    ),
    "penalty-0": (
        Fingerprint(
            "78b0602bb801e6a7d5288b33f2f635df8aac70b2ad3fae04bcf6a977e882ac71",
            VERSIONS
            | {"bits": "cf844770c7df3802d10166f11cc4da53e2eb92541dfb3e24e59407dbb727729e"},
        ),
    ),
    "penalty-100": (
        Fingerprint(
            "a6e3286befda5b18f444b7171fd2526547e34697084864489b0abfcbcbeabc0e",
            VERSIONS
            | {"bits": "e5f6532ffd25d07053ad32aaf6d601ecdd4c7aa13932c8c75abcf73e72f6eaf0"},
        ),
    ),
    "prisoners-dilemma": (
        Fingerprint(
            "6ce2c7f83409db29eb9d304d4aed34fd966724148b48332eb9de99f7f374b2c3",
            VERSIONS
            | {"bits": "5c7afc8da182faa9c6d882082e6524521444ed3baeb2b8d0db659b060a6d55b9"},
        ),
    ),
    "stag-safe": (
        Fingerprint(
            "e3ed4dbfb4743284436c13e3400b08d1cc93be5bb22dd0da695f6318b240801f",
            VERSIONS
            | {"bits": "e95e11cf18db258f17f59b3b1a0fce55ec9855e02795e08b3eb7d93b23c9843a"},
        ),
    ),
    "stag-risky": (
        Fingerprint(
            "d72d7635bf716de29a141272c7208584aee2037fc90b4138222cc070e9bc4620",
            VERSIONS
            | {"bits": "cb8c867cdb3463f5591f91d3f928118c5a73b67bfae393ce944315b2d6f9163a"},
        ),
    ),
    "climbing-repeated": (
        Fingerprint(
            "6a9abbf60b1afad1f9d6e4451c5eedfae38280a55109d1942a19613d1dcd731a",
            VERSIONS
            | {"bits": "1f332afb0bf02d2b24342e5f6420a1f12a168996b8c8336604cdc073061a5ddb"},
        ),
    ),
    "cartpole-ppo": (
        Fingerprint(
            "5dd947964a8dc10b1bc29e69a15bed6810fcdda2ec47afb4871f87c9cf3eb26a",
            VERSIONS
            | {"bits": "4382d29a0ccf12a54c91113bfa0657a078b3c4e9d5c0bca2d011f82e04a61eba"},
        ),
    ),
    "cartpole-dqn": (
        Fingerprint(
            "4c3659cf0a659f1a021e4c62ad03e64c3083579c2c6dc918030486d757525cab",
            VERSIONS
            | {"bits": "db8f3d4e3676838b99b0c151c35c2149cb36e4d1f94dc4840562d82602f15f91"},
        ),
    ),
    "treasurehunt-forager": (
        Fingerprint(
            "a04b163c42d376deb25c71413982728e5c50a602e1b9194ec4d9ed559752f679",
            VERSIONS
            | {"bits": "68d771b5a177d7bbc8c7e97724c53cc4437de79f6be6613eb4a20010446b3b81"},
        ),
    ),
}
"""By the name of the result."""
