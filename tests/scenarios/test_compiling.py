"""What a run compiles: every loop once, on two cores, and nothing compiled earlier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import ModuleType

import pytest

from rookery.training.autoscale import cores
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

    runs = load("compiling").measure(["treasurehunt", *overrides(settings)])

    compiled = [step for step in runs["empty"].steps if not step.is_loaded]
    ours = [step for step in compiled if step.function.startswith("rookery.")]
    counts = Counter((step.function, without_layouts(step.signature)) for step in ours)
    assert ours
    assert [loop for loop, count in counts.items() if count > 1] == []
    assert len({step.process for step in ours}) == min(2, cores())
    assert [step for step in runs["full"].steps if not step.is_loaded] == []
    assert len({step.process for step in runs["full"].steps}) == 1
