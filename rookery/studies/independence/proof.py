"""The proof of independence, for a run's own configuration.

A few short rounds are played. Then everybody is trained again from exactly the rows it
lived through, while one agent is altered: its experience, its random numbers, its
settings, its network, its algorithm, whether it is there at all. Of everybody else not one
bit of any state may change, and nothing of what they do.

Agents of one game do affect each other through the game. That is experience, and each has
its own.
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
from rookery.streams import guarded
from rookery.studies.independence.globals import fresh_code, kept_outside
from rookery.studies.independence.replay import Rounds, VersionedState, relearn
from rookery.studies.independence.report import AGAIN, Comparison, Independence
from rookery.studies.independence.variations import ALTERATIONS, Alteration, Life
from rookery.training.training import Training

ROUNDS = 3
UPDATES = 2
ROWS = 2048
"""Rows of an agent in a round, at most, unless a batch needs more."""


@guarded()
@standard_state()
def independence(
    run: str | Path | Run, progress: Callable[[int, int], None] = lambda done, of: None
) -> Independence:
    """Prove, for a run's own configuration, that its agents share nothing.

    Args:
        run: the run, or its folder.
        progress: called with how many trainings were compared, of how many.
    """
    opened = run if isinstance(run, Run) else Run(run)
    return _Proof(opened, progress).found


class _Proof:
    """Plays once, then trains everybody again and again."""

    def __init__(self, run: Run, progress: Callable[[int, int], None]) -> None:
        agents = [agent for agent in run.agents if agent.learns]
        ids = [agent.id for agent in agents]
        self.found = Independence(str(run.path), ids, common=_common(run, agents))
        if not ids:
            return
        self._code = [agent.settings.algorithm for agent in agents]
        self._config = shortened(run.config, run.agents)
        progress(0, 1 + len(ids) * len(ALTERATIONS))
        with fresh_code(self._code):
            training = Training.build(run.entry, self._config)
            try:
                self._compare(training, progress)
            finally:
                training.close()

    def _compare(self, training: Training, progress: Callable[[int, int], None]) -> None:
        config, ids = self._config, self.found.agents
        for _ in training.rounds():
            pass
        self._rounds = Rounds(
            config.seed, config.rounds, config.turns_per_round, config.worlds
        )
        self._together = [
            {training.agents[i].id for i in group} for group in training.process_spec.groups
        ]
        self._training, changed = training, set[str]()
        before = self._relearn(changed=changed)
        self._compare_with_run(before)
        trials = [(i, alteration) for i in ids for alteration in ALTERATIONS]
        for done, (altered, alteration) in enumerate(trials, start=1):
            progress(done, 1 + len(trials))
            self._try(altered, alteration, before)
        progress(1 + len(trials), 1 + len(trials))
        self._name_shared(changed)

    def _relearn(
        self,
        altered: str = "",
        alteration: Alteration | None = None,
        changed: set[str] | None = None,
    ) -> VersionedState:
        """Train everybody from their rows, one of them altered."""
        with fresh_code(self._code):
            outside = kept_outside(self._code)
            lives = []
            for agent in build_agents(self._config, self._training.process_spec.agents):
                if agent.learns:
                    life = Life(agent, self._training.arena.rows(agent.id))
                    made: Life | None = life
                    if alteration is not None and agent.id == altered:
                        made = alteration.make(life, self._rounds.last)
                    lives += [made] if made is not None else []
            states = relearn(lives, self._together, self._rounds)
            if changed is not None:
                now = kept_outside(self._code)
                changed |= {name for name in now if outside.get(name) != now[name]}
        return states

    def _compare_with_run(self, states: VersionedState) -> None:
        """See that learning from the rows alone is what the run did."""
        training, last = self._training, self._rounds.rounds
        for agent in training.agents:
            if agent.learns:
                real = training.named_state(agent, last)
                again = {name: states[agent.id][-1][name] for name in real}
                differs = difference([real], [again], last)
                one = Comparison(agent.id, agent.id, AGAIN, differs)
                self.found.comparisons.append(one)
                first = training.named(agent, training.initial_state(agent))
                if difference([first], [again], 1) is None:
                    self.found.notes.append(
                        f"agent {agent.id} made no update in {last} short rounds: too "
                        "little of what it lives through can be learned from."
                    )

    def _try(self, altered: str, alteration: Alteration, before: VersionedState) -> None:
        """Alter one agent, and compare all others."""
        try:
            after = self._relearn(altered, alteration)
        except RookeryError as error:
            self._note(altered, alteration, str(error))
            return
        if altered in after and difference(before[altered], after[altered]) is None:
            self._note(altered, alteration, "it makes no difference to the agent itself")
            return
        for agent in self.found.agents:
            if agent != altered:
                differs = difference(before[agent], after[agent])
                one = Comparison(agent, altered, alteration.name, differs)
                self.found.comparisons.append(one)

    def _note(self, altered: str, alteration: Alteration, why: str) -> None:
        self.found.notes.append(
            f"agent {altered} altered ({alteration.name}: {alteration.what}): {why}"
        )

    def _name_shared(self, changed: set[str]) -> None:
        """Name what lies outside of all agents, if one of them was changed."""
        if self.found.is_independent:
            return
        self.found.shared += [
            f"{name}: it changes while agents learn or act, and all agents have the one"
            for name in sorted(changed)
        ]
        if not changed:
            self.found.shared.append(
                "something that could not be found: no top-level variable of the agents' "
                "own code changes; look for caches, files and defaults that are changed"
            )


def difference(
    before: Sequence[Mapping[str, Array]],
    after: Sequence[Mapping[str, Array]],
    first: int = 1,
) -> str | None:
    """Return where two histories of states part first; None if in not one bit."""
    for number, (old, new) in enumerate(zip(before, after, strict=True), start=first):
        for name in sorted(old.keys() | new.keys()):
            if name not in old or name not in new or old[name].shape != new[name].shape:
                return f"{name} has another shape"
            if old[name].tobytes() != new[name].tobytes():
                count = int((old[name] != new[name]).sum())
                return f"{name}, {count} of {old[name].size} numbers, from round {number}"
    return None


def shortened(config: Config, agents: Sequence[Agent]) -> Config:
    """Return a configuration with few short rounds, in which everybody learns at once."""
    longest = max(
        -(-2 * agent.settings.batch_size // config.worlds) + agent.settings.n_step
        for agent in agents
    )
    turns = max(longest, min(config.turns_per_round, max(1, ROWS // config.worlds)))
    rows = ROUNDS * turns * config.worlds
    shortened = {m.id: _shortened(config.agent(m.id), rows) for m in agents}
    changes = {
        "rounds": ROUNDS,
        "turns_per_round": turns,
        "schedule": "sync",
        "workers": 0,
        "storage": "memory",
        "evaluate": config.evaluate.model_copy(update={"every_rounds": 0}),
        "record": config.record.model_copy(update={"every_rounds": 0}),
        "probe": config.probe.model_copy(update={"code": None}),
        "agents": shortened,
    }
    return config.model_copy(update=changes)


def _shortened(agent: AgentConfig, rows: int) -> AgentConfig:
    changes = {
        "updates_per_round": min(agent.updates_per_round, UPDATES),
        "replay": agent.replay.model_copy(update={"warmup": 1, "capacity": rows}),
        "ppo": agent.ppo.model_copy(update={"passes": 1}),
    }
    return agent.model_copy(update=changes)


def _common(run: Run, agents: Sequence[Agent]) -> list[str]:
    """Return what agents have in common by the user's own choice."""
    found = [
        f"the game, {run.entry.name}: what one does is part of what others live through"
    ]
    origins: dict[str, list[str]] = defaultdict(list)
    for agent in agents:
        origin = run.config.agent(agent.id).start_from
        if origin is not None:
            origins[origin].append(agent.id)
    for origin, ids in origins.items():
        if len(ids) > 1:
            found.append(
                f"agents {', '.join(ids)} began from {origin}: each from a copy of its own"
            )
    return found
