"""The command line.

`--json` prints one JSON object on standard output and nothing else there. An error is one
line on standard error; exit code 2 means that the user can fix it.

Commands import what they need when they run, so that `rookery --help` does not wait for
torch.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from rookery.cli.evaluate import evaluate
from rookery.cli.nodes import nodes
from rookery.cli.options import (
    AsJson,
    Debug,
    Game,
    NamedAlgorithms,
    NamedGame,
    Overrides,
    RunFolder,
    Version,
    flag,
)
from rookery.cli.replay import record, replay
from rookery.cli.reproduce import reproduce
from rookery.cli.runs import diff, runs
from rookery.cli.settings import settings
from rookery.cli.studies import crossplay, independence
from rookery.cli.sweep import app as sweep
from rookery.cli.train import resume, train
from rookery.errors import RookeryError, advice
from rookery.printing import err, out, print_json, say, tell
from rookery.stdio import guarded, take_lost

# Some releases of typer contain a copy of click, others depend on it.
ClickException: Any = next(
    base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException"
)


def describe_program(version: Version = False, debug: Debug = False) -> None:
    """Train groups of independent reinforcement-learning agents in one game."""


def games(as_json: AsJson = False) -> None:
    """List the built-in games."""
    from rookery.api.games import list_games

    known = list_games()
    if as_json:
        print_json(known.to_json())
    else:
        out.print(known)
        out.print(Text("rookery describe GAME shows more about a game.", "dim"))


def describe(
    game: Game = None, overrides: Overrides = None, as_json: AsJson = False
) -> None:
    """Describe a game: agents, observations, actions, players and settings."""
    from rookery.api.games import describe

    description = describe(game, overrides=overrides or ())
    if as_json:
        print_json(description.to_json())
    else:
        out.print(description)


def check(game: Game = None, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Check a game's contract: independent worlds, exact snapshots, fair seats."""
    from rookery.api.games import check, finding_line
    from rookery.games.conformance.checks import Finding

    def show(finding: Finding) -> None:
        if not as_json:
            out.print(finding_line(finding), soft_wrap=True)

    result = check(game, overrides=overrides or (), callback=show)
    if as_json:
        print_json(result.to_json())
    if not result.passed:
        raise typer.Exit(1)


def digest(run: RunFolder, named_game: NamedGame = None, as_json: AsJson = False) -> None:
    """Print the SHA-256 of every agent's learner state and experience."""
    from rookery.api.digest import digest

    digests = digest(run, named_game)
    if as_json:
        print_json(digests.to_json())
    else:
        tell(str(digests))


def export(
    run: RunFolder,
    agent: Annotated[str, typer.Argument(help="The agent's id.")],
    file: Annotated[Path, typer.Argument(help="The file to write.")],
    weights_only: Annotated[
        bool, flag("--weights-only", "Leave out what only learning needs.")
    ] = False,
    with_replay: Annotated[bool, flag("--replay", "Include the agent's replay.")] = False,
    force: Annotated[bool, flag("--force", "Replace the file if there is one.")] = False,
    named_game: NamedGame = None,
    named_algorithms: NamedAlgorithms = None,
) -> None:
    """Write one trained agent to a file, to be used in Python or in another run."""
    import shlex

    from rookery.api.agents import export

    export(
        run,
        agent,
        file,
        weights_only=weights_only,
        replay=with_replay,
        force=force,
        game=named_game,
        algorithm=named_algorithms or [],
    )
    use = f"rookery train … {shlex.quote(f'agents.ID.from={file}')}"
    tell(f"{file}: agent {agent} of {run}\nUse it: {use}")
    tell(f"In Python: rookery.load_agent({str(file)!r})")


def health(run: RunFolder, as_json: AsJson = False) -> None:
    """Show the status of every process of a run, or of every seed in a folder."""
    from rookery.api.health import health
    from rookery.runs.folder import seeds_of

    seeds = seeds_of(run)
    status = {path.name: health(path) for path in seeds or [run]}
    if as_json:
        printed = {name: each.to_json() for name, each in status.items()}
        print_json({"seeds": printed} if seeds else printed[run.name])
        return
    for name, each in status.items():
        if seeds:
            out.print(Text(f"\n{name}", "bold"))
        out.print(each)


def bench(
    name: Annotated[
        str | None, typer.Argument(help="The benchmark; without it, all are listed.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure speed, side by side with a plain implementation."""
    from rookery.bench.measure import bench_names, run_bench
    from rookery.cli.output import print_report

    names = bench_names()
    if name is None:
        out.print(f"benchmarks: {', '.join(names)}")
        return
    with err.status(f"measuring {name} …") as status:
        report = run_bench(name, progress=lambda done: status.update(f"{done} …"))
    if as_json:
        print_json(report.to_json())
    else:
        print_report(out, report)


app = typer.Typer(
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
app.callback()(describe_program)
for command in (
    games,
    describe,
    settings,
    check,
    train,
    resume,
    runs,
    diff,
    evaluate,
    replay,
    record,
    digest,
    export,
    health,
    crossplay,
    independence,
    reproduce,
    bench,
    nodes,
):
    app.command()(command)
app.add_typer(sweep, name="sweep")


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; every error that the user can fix is one line."""
    arguments = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in arguments
    with guarded():
        code = _run([word for word in arguments if word != "--debug"], debug)
        if not code and (reason := take_lost()):
            code = _fail(f"cannot write to standard output ({reason}).", 1)
    sys.exit(code)


def _run(arguments: list[str], debug: bool) -> int:
    try:
        return app(arguments, standalone_mode=False, prog_name="rookery") or 0
    except RookeryError as error:
        if debug:
            raise
        return _fail(str(error), error.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        return _fail("stopped.", 130)
    except OSError as error:
        if debug or not (message := advice(error)):
            raise
        return _fail(message, 2)
    except ClickException as error:
        # Without arguments the help was shown, and there is no message.
        return _fail(_usage(error, arguments), 2) if error.format_message() else 0


def _usage(error: Any, arguments: list[str]) -> str:
    """Return the message for a wrong argument, with a pointer to the help."""
    option = getattr(error, "option_name", None)
    if option == "--run" and error.ctx.command.name == "evaluate":
        return (
            "no such option: --run: evaluate does not create a folder; to keep its "
            "result, use --json > FILE."
        )
    if option and (advice := _setting_advice(error.ctx.command, option, arguments)):
        return f"no such option: {option}: {advice}"
    message = error.format_message().rstrip(".")
    path = error.ctx.command_path if getattr(error, "ctx", None) else "rookery"
    pointer = " See" if message.endswith("?") else ": see"
    return f"{message}{pointer} `{path} --help`."


def _setting_advice(command: Any, option: str, arguments: list[str]) -> str:
    """Return how to write a setting that was written as an option; '' if it is not one."""
    from rookery.config.catalog import sections
    from rookery.config.messages import describe_synonym

    if not any(parameter.name == "overrides" for parameter in command.params):
        return ""
    name = option.lstrip("-").replace("-", "_")
    known = [row.key for section in sections() for row in section.rows]
    if name not in known and not name.startswith(("game.", "agents.")):
        answer = describe_synonym((name,), known)
        return f"{answer}; write settings as NAME=VALUE." if answer else ""
    _, _, value = next(w for w in arguments if w.startswith(option)).partition("=")
    following = arguments[arguments.index(option) + 1 :] if option in arguments else []
    if not value:
        value = next((word for word in following[:1] if word[:1] != "-"), "VALUE")
    return f"settings are written without dashes: {name}={value}"


def _fail(message: str, code: int) -> int:
    say(f"error: {message}")
    return code
