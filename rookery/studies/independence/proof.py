"""A proof that the agents of a run are independent, for the run's own configuration.

A few short rounds are played. Then all agents are trained again from exactly the rows they
experienced, while one agent is altered: its experience, random numbers, settings, network
or algorithm, or whether it takes part at all. Not one bit of any other agent's states may
change, and none of its actions.

Agents in one game do affect each other through the game. That is part of their experience,
and each has its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rookery.algorithms.agents import build_agents
from rookery.algorithms.base import Agent
from rookery.algorithms.torch_setup import standard_state
from rookery.config.run import AgentConfig, Config
from rookery.errors import RookeryError
from rookery.runs.run import Run
from rookery.specs import Array
from rookery.stdio import guarded
from rookery.studies.independence.globals import fresh_code, global_state
from rookery.studies.independence.replay import Rounds, StateHistory, retrain
from rookery.studies.independence.report import CONTROL, Comparison, Independence
from rookery.studies.independence.variations import VARIATIONS, Experience, Variation
from rookery.training.training import Training

ROUNDS = 3
UPDATES = 2
ROWS = 2048
"""Rows of an agent in a round, at most, unless a batch needs more."""

Progress = Callable[[int, int], None]


@guarded()
@standard_state()
def independence(
    run: str | Path | Run,
    progress: Progress = lambda done, of: None,
    *,
    game: str | None = None,
    algorithm: str | Sequence[str] | None = None,
) -> Independence:
    """Prove, for a run's own configuration, that its agents share nothing.

    Args:
        run: the run, or its folder.
        progress: called with the number of trainings compared, and of all trainings.
        game: the run's game as named in training, if it is not built in.
        algorithm: the same for one or several algorithms.
    """
    opened = run if isinstance(run, Run) else Run(run, game, algorithm)
    agents = [agent for agent in opened.agents if agent.learns]
    ids = [agent.id for agent in agents]
    report = Independence(str(opened.path), ids, common=_common(opened, agents))
    if ids:
        progress(0, 1 + len(ids) * len(VARIATIONS))
        config = shortened(opened.config, opened.agents)
        code = [agent.settings.algorithm for agent in agents]
        with fresh_code(code):
            training = Training.build(opened.entry, config)
            try:
                _Proof(training, code, report).run(progress)
            finally:
                training.close()
    return report


class _Proof:
    """Plays once, then trains all agents again for every variation."""

    def __init__(
        self, training: Training, code: Sequence[str], report: Independence
    ) -> None:
        config = training.config
        self._training, self._code, self._report = training, code, report
        self._rounds = Rounds(
            config.seed, config.rounds, config.turns_per_round, config.worlds
        )
        self._exact_groups = [
            {training.agents[i].id for i in group} for group in training.process_spec.groups
        ]

    def run(self, progress: Progress) -> None:
        """Play, train again, and compare."""
        for _ in self._training.rounds():
            pass
        changed_globals = set[str]()
        before = self._retrain(changed_globals=changed_globals)
        self._compare_with_run(before)
        trials = [(i, variation) for i in self._report.agents for variation in VARIATIONS]
        for done, (altered, variation) in enumerate(trials, start=1):
            progress(done, 1 + len(trials))
            self._try(altered, variation, before)
        progress(1 + len(trials), 1 + len(trials))
        if not self._report.is_independent:
            self._report.shared += _shared(changed_globals)

    def _retrain(
        self,
        altered: str = "",
        variation: Variation | None = None,
        changed_globals: set[str] | None = None,
    ) -> StateHistory:
        """Train all agents from their rows, with one of them altered."""
        training = self._training
        with fresh_code(self._code):
            globals_before = global_state(self._code)
            experiences = []
            for agent in build_agents(training.config, training.process_spec.agents):
                if agent.learns:
                    experience = Experience(agent, training.arena.rows(agent.id))
                    varied: Experience | None = experience
                    if variation is not None and agent.id == altered:
                        varied = variation.apply(experience, self._rounds.turns)
                    experiences += [varied] if varied is not None else []
            history = retrain(experiences, self._exact_groups, self._rounds)
            if changed_globals is not None:
                now = global_state(self._code)
                changed_globals |= {n for n in now if globals_before.get(n) != now[n]}
        return history

    def _compare_with_run(self, history: StateHistory) -> None:
        """Check that training from the rows alone gives the result of the run."""
        training, last = self._training, self._rounds.rounds
        for agent in training.agents:
            if agent.learns:
                original = training.named_state(agent, last)
                retrained = {name: history[agent.id][-1][name] for name in original}
                differs = difference([original], [retrained], last)
                control = Comparison(agent.id, agent.id, CONTROL, differs)
                self._report.comparisons.append(control)
                first = training.named(agent, training.initial_state(agent))
                if difference([first], [retrained], 1) is None:
                    self._report.notes.append(
                        f"agent {agent.id} made no update in {last} short rounds: too "
                        "little of its experience can be learned from."
                    )

    def _try(self, altered: str, variation: Variation, before: StateHistory) -> None:
        """Alter one agent, and compare all others."""
        label = f"agent {altered} altered ({variation.name}: {variation.description})"
        try:
            after = self._retrain(altered, variation)
        except RookeryError as error:
            self._report.notes.append(f"{label}: {error}")
            return
        if altered in after and difference(before[altered], after[altered]) is None:
            self._report.notes.append(
                f"{label}: it makes no difference to the agent itself"
            )
            return
        for agent in self._report.agents:
            if agent != altered:
                differs = difference(before[agent], after[agent])
                comparison = Comparison(agent, altered, variation.name, differs)
                self._report.comparisons.append(comparison)


def _shared(changed_globals: set[str]) -> list[str]:
    """Return what agents that are not independent probably share."""
    if not changed_globals:
        return [
            "something that could not be found: no top-level variable of the agents' own "
            "code changes; look for caches, files and mutable defaults"
        ]
    return [
        f"{name}: it changes while agents learn or act, and all agents use the same one"
        for name in sorted(changed_globals)
    ]


def difference(
    before: Sequence[Mapping[str, Array]],
    after: Sequence[Mapping[str, Array]],
    first: int = 1,
) -> str | None:
    """Return the first difference between two histories of states, if there is one."""
    for number, (old, new) in enumerate(zip(before, after, strict=True), start=first):
        for name in sorted(old.keys() | new.keys()):
            if name not in old or name not in new or old[name].shape != new[name].shape:
                return f"{name} has another shape"
            if old[name].tobytes() != new[name].tobytes():
                count = int((old[name] != new[name]).sum())
                return f"{name}, {count} of {old[name].size} numbers, from round {number}"
    return None


def shortened(config: Config, agents: Sequence[Agent]) -> Config:
    """Return a configuration with a few short rounds, in which agents learn at once."""
    longest = max(
        -(-2 * agent.settings.batch_size // config.worlds) + agent.settings.n_step
        for agent in agents
    )
    turns = max(longest, min(config.turns_per_round, max(1, ROWS // config.worlds)))
    rows = ROUNDS * turns * config.worlds
    changes = {
        "rounds": ROUNDS,
        "turns_per_round": turns,
        "schedule": "sync",
        "workers": 0,
        "storage": "memory",
        "evaluate": config.evaluate.model_copy(update={"every_rounds": 0}),
        "record": config.record.model_copy(update={"every_rounds": 0}),
        "probe": config.probe.model_copy(update={"code": None}),
        "agents": {
            agent.id: _shortened_agent(config.agent(agent.id), rows) for agent in agents
        },
    }
    return config.model_copy(update=changes)


def _shortened_agent(agent: AgentConfig, rows: int) -> AgentConfig:
    changes = {
        "updates_per_round": min(agent.updates_per_round, UPDATES),
        "replay": agent.replay.model_copy(update={"warmup": 1, "capacity": rows}),
        "ppo": agent.ppo.model_copy(update={"passes": 1}),
    }
    return agent.model_copy(update=changes)


def _common(run: Run, agents: Sequence[Agent]) -> list[str]:
    """Return what agents have in common by the user's own choice."""
    lines = [
        f"the game, {run.entry.name}: the actions of one are part of the others' experience"
    ]
    origins: dict[str, list[str]] = defaultdict(list)
    for agent in agents:
        origin = run.config.agent(agent.id).start_from
        if origin is not None:
            origins[origin].append(agent.id)
    lines += [
        f"agents {', '.join(ids)} started from {origin}, each from a separate copy"
        for origin, ids in origins.items()
        if len(ids) > 1
    ]
    return lines
