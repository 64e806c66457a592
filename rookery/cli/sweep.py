"""The commands of `rookery sweep`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from rookery.cli.options import AsJson, NamedAlgorithms, Until, flag
from rookery.cli.place import LOCAL, On, Place, RayAddress, place_of
from rookery.cli.search import (
    Engine,
    Maximised,
    NoPruning,
    NumberOfTrials,
    SearchOptions,
    SearchSeed,
    refuse_place,
)
from rookery.cli.slurm import SlurmOptions, submit_sweep
from rookery.cli.sweep_results import NamedGames, SweepFolder, export, table
from rookery.cli.until import end_time
from rookery.errors import ConfigError
from rookery.printing import command, print_json, say, tell
from rookery.stop import UNFINISHED, StopFlag, Stopped

if TYPE_CHECKING:
    from rookery.sweeps.axes import Question
    from rookery.sweeps.plan import Plan
    from rookery.sweeps.search_plan import SearchQuestion
    from rookery.sweeps.trust import Named
    from rookery.sweeps.verify import Verified

PLAN = "plan"
NamedProbes = Annotated[
    list[str] | None, typer.Option("--probe", help="The probe of the sweep, if any.")
]


class SweepGroup(TyperGroup):
    """`rookery sweep GAME …` is short for `rookery sweep plan GAME …`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the name of the command in front, if it was left out."""
        first = next((word for word in args if not word.startswith("-")), None)
        is_help = not args or args[0] in ("-h", "--help")
        if not is_help and first not in self.commands:
            args = [PLAN, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(cls=SweepGroup, no_args_is_help=True)


def describe_sweep() -> None:
    """Train many runs: games, settings and seeds, in one folder.

    `rookery sweep GAME[,GAME] seeds=0..9 learning_rate=1e-4,3e-4 --run FOLDER`
    trains every combination. Ranges: game.agents=2..5. Settings that vary together:
    learning_rate:batch_size=1e-4:32,3e-4:64. To try only some combinations
    and find the best: --search optuna --trials 40.
    """


def plan(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="GAME[,GAME] SETTING=VALUE[,VALUE]",
            help="The games, seeds=0..9, and settings; several values are varied.",
        ),
    ] = None,
    plan_file: Annotated[
        Path | None, typer.Option("--plan", help="A TOML file with the plan instead.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--run", help="The folder to create for the sweep.")
    ] = None,
    dry: Annotated[
        bool, flag("--dry-run", "Only count the cells, and estimate the core-hours.")
    ] = False,
    games: NamedGames = None,
    algorithms: NamedAlgorithms = None,
    probes: NamedProbes = None,
    on: On = LOCAL,
    ray_address: RayAddress = None,
    slurm: SlurmOptions = None,
    until: Until = None,
    engine: Engine = None,
    trials: NumberOfTrials = None,
    metric: Maximised = None,
    search_seed: SearchSeed = None,
    no_pruning: NoPruning = False,
    as_json: AsJson = False,
) -> None:
    """Plan a sweep and train it; `plan` can be left out."""
    from rookery.sweeps.planning import groups_of, new_plan
    from rookery.sweeps.search_plan import SearchQuestion, base_of, plan_search
    from rookery.sweeps.trust import Named

    options = SearchOptions(engine, trials, metric, search_seed, no_pruning)
    options.check(on, plan_file)
    place = place_of(on, ray_address, slurm, until)
    question = _question(words or [], plan_file, options)
    named = Named(games or [], algorithms or [], probes or [])
    if plan_file is None:  # what the user has typed is named; what is in a file is not
        named = named.with_all(_code_in(question))
    if isinstance(question, SearchQuestion):
        refuse_place(on)
        if dry:
            base = base_of(question, named, plan_file)
            _estimate(question.question, [base] * (question.trials or 0), as_json)
            return
        planned = plan_search(question, folder, named, plan_file)
    else:
        if dry:
            _estimate(question, groups_of(question, named, plan_file), as_json)
            return
        planned = new_plan(question, folder, named, plan_file)
    if not as_json:
        say(_summary(planned))
    _train(planned, place, until, as_json)


def _summary(plan: Plan) -> str:
    """Return one line about a sweep that begins."""
    cells, seeds = len(plan.cells), len(plan.seeds)
    if plan.search is None:
        return f"{plan.folder}: {cells} cells ({len(plan.groups)} × {seeds} seeds)"
    line = (
        f"{plan.folder}: {cells} cells ({plan.search.trials} trials × {seeds} seeds), to "
        f"find the highest {plan.search.metric}"
    )
    if not plan.search.is_evaluated:
        line += "; without evaluations (evaluate.every_rounds) no trial is pruned"
    return line


def _code_in(question: Question | SearchQuestion) -> Named:
    from rookery.sweeps.planning import named_in
    from rookery.sweeps.search_plan import SearchQuestion, code_named_in

    if isinstance(question, SearchQuestion):
        return code_named_in(question)
    return named_in(question)


def _question(
    words: list[str], plan_file: Path | None, options: SearchOptions
) -> Question | SearchQuestion:
    from rookery.sweeps.axes import (
        parse_seeds,
        parse_words,
        read_plan_file,
        read_question,
    )
    from rookery.sweeps.search_words import search_of

    if plan_file is not None:
        if words:
            raise ConfigError(
                f"{words[0]!r} and --plan were given: put everything into the file."
            )
        plan = read_plan_file(plan_file)
        return read_question(plan_file) if plan.search is None else search_of(plan)
    if not words or "=" in words[0]:
        raise ConfigError("no game given: name one that `rookery games` lists.")
    seeds = [word for word in words[1:] if word.startswith("seeds=")]
    rest = [word for word in words[1:] if word not in seeds]
    numbers = parse_seeds(seeds[-1].removeprefix("seeds=")) if seeds else [0]
    if options.engine is not None:
        return options.asked(words[0], rest, numbers)
    return parse_words(words[0], rest, numbers)


def _estimate(question: Question, groups: list[Any], as_json: bool) -> None:
    from rookery.sweeps.estimate import estimate

    say("timing the first cell for a few seconds …")
    result = estimate(question, groups)
    if as_json:
        print_json(result)
        return
    tell(
        f"{result['cells']} cells ({result['groups']} × {result['seeds']} seeds), "
        f"{result['rounds']} rounds each\n"
        f"about {result['core_hours']:.2g} core-hours, at "
        f"{result['seconds_per_round']:.3g} seconds per round of the first cell; about "
        f"{result['hours_here']:.2g} hours on this machine"
    )


def go(
    folder: SweepFolder,
    games: NamedGames = None,
    algorithms: NamedAlgorithms = None,
    probes: NamedProbes = None,
    on: On = LOCAL,
    ray_address: RayAddress = None,
    slurm: SlurmOptions = None,
    until: Until = None,
    as_json: AsJson = False,
) -> None:
    """Train all cells that are not done, also those that failed; after anything."""
    place = place_of(on, ray_address, slurm, until)
    opened = _opened(folder, games, algorithms, probes)
    if opened.search is not None:
        refuse_place(on)
    _train(opened, place, until, as_json)


def _opened(
    folder: Path,
    games: list[str] | None,
    algorithms: list[str] | None,
    probes: list[str] | None,
) -> Plan:
    from rookery.sweeps.plan import Plan
    from rookery.sweeps.trust import Named

    return Plan(folder, Named(games or [], algorithms or [], probes or []))


def _train(plan: Plan, place: Place, until: str | None, as_json: bool) -> None:
    from rookery.api.sweep import status_of, train_sweep

    if place.engine is None:
        submit_sweep(plan, place.slurm, as_json)
        return
    stop = StopFlag(end_time(until))
    try:
        with stop.listening(to_the_end=True):
            outcome = train_sweep(
                plan, stop, as_json, say, lambda line: say(f"warning: {line}"), place.engine
            )
    except Stopped:
        arguments = [*plan.named.arguments(), *place.arguments]
        say(f"stopped; go on with: {command('sweep', 'go', plan.folder, *arguments)}")
        sys.exit(UNFINISHED)
    if as_json:
        print_json({**status_of(plan).to_json(), "summaries": outcome.summaries})
    else:
        tell(f"{status_of(plan)}\nNext: rookery sweep table {plan.folder}")


def status(
    folder: SweepFolder,
    games: NamedGames = None,
    algorithms: NamedAlgorithms = None,
    probes: NamedProbes = None,
    as_json: AsJson = False,
) -> None:
    """Show how many cells are done, running, failed and left."""
    from rookery.api.sweep import status_of

    result = status_of(_opened(folder, games, algorithms, probes))
    if as_json:
        print_json(result.to_json())
    else:
        tell(str(result))


def work(
    folder: SweepFolder,
    games: NamedGames = None,
    algorithms: NamedAlgorithms = None,
    probes: NamedProbes = None,
    until: Until = None,
    as_json: AsJson = False,
) -> None:
    """Take free cells one after the other until none is left, in this process.

    Any number of these can run, here or on other machines that share the folder.
    """
    from rookery.sweeps.work import work

    plan, stop = _opened(folder, games, algorithms, probes), StopFlag(end_time(until))

    def told(event: str, cell: str, **details: Any) -> None:
        if as_json:
            print(json.dumps({"event": event, "cell": cell, **details}), flush=True)
        elif event != "done":
            say(f"{cell}: {details.get('line', event)}")
        else:
            say(f"{cell} is done")

    try:
        with stop.listening(to_the_end=True):
            work(plan, stop, told)
    except Stopped:
        sys.exit(UNFINISHED)


def verify(
    folder: SweepFolder,
    count: Annotated[
        int, typer.Option("--cells", min=1, help="How many cells to compute again.")
    ] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Chooses the cells.")] = 0,
    games: NamedGames = None,
    algorithms: NamedAlgorithms = None,
    probes: NamedProbes = None,
    as_json: AsJson = False,
) -> None:
    """Compute some random cells again, here, and compare their digests."""
    from dataclasses import asdict

    from rookery.sweeps.verify import choose, verify

    plan, stop, results = _opened(folder, games, algorithms, probes), StopFlag(), []
    cells = choose(plan, count, seed)
    try:
        with stop.leaving():
            for result in verify(plan, cells, stop):
                results.append(result)
                say(_verdict(result))
    except Stopped:
        sys.exit(128 + (stop.signal or 0))
    if as_json:
        print_json({"verified": [{**asdict(x), "same": x.is_same} for x in results]})
    if not all(result.is_same for result in results):
        raise typer.Exit(1)


def _verdict(result: Verified) -> str:
    if not result.expected:
        return f"{result.cell}: DAMAGED: {result.why}"
    same = "the same bits" if result.is_same else "OTHER bits"
    note = f"; it is not exact: {result.why}" if result.why else ""
    return f"{result.cell}: {same} ({result.computed[:16]}…){note}"


app.callback()(describe_sweep)
for _command in (plan, go, status, work, verify, table, export):
    app.command()(_command)
