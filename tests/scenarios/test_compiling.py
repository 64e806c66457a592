"""What a run compiles: every loop once, and nothing that an earlier run has compiled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import ModuleType

import pytest

from tests.experiments.conftest import load as load
from tests.small import HUNT, overrides

# Groups of one agent and of two: a view of one agent's numbers is contiguous.
TWO_GROUPS = {"agents.0.network.width": 16}
LAYOUTS = ("'A'", "'F'")


def without_layouts(signature: str) -> str:
    for layout in LAYOUTS:
        signature = signature.replace(layout, "'C'")
    return signature


@pytest.mark.slow
@pytest.mark.timeout(300)  # everything is compiled
@pytest.mark.parametrize("algorithm", ["iqn", "dqn", "ppo"])
def test_a_run_compiles_no_loop_for_two_layouts_and_the_next_run_compiles_nothing(
    algorithm: str, load: Callable[[str], ModuleType]
) -> None:
    settings = HUNT | TWO_GROUPS | {"algorithm": algorithm, "rounds": 3, "workers": 0}

    steps = load("compiling").measure(["treasurehunt", *overrides(settings)])

    ours = [step for step in steps["empty"] if step.function.startswith("rookery.")]
    counts = Counter((step.function, without_layouts(step.signature)) for step in ours)
    assert ours
    assert [loop for loop, count in counts.items() if count > 1] == []
    assert [step for step in steps["full"] if not step.is_loaded] == []
