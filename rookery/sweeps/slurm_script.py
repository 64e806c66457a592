"""The batch script of a Slurm job array: every task trains cells until none is free.

The shell stays beside the training, because a task can only be put back into the queue when
the training has saved and left. It passes on what Slurm sends to it, waits, and puts the
task back if there is something left to do and Slurm is not ending the task anyway.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from rookery.stop import UNFINISHED

SLURM = "slurm"
"""The folder within a sweep with the script and the output of all tasks."""
SCRIPT = "task.sh"

TEXT = r"""#!/bin/bash
# One task of a sweep: it trains the cells that are free, one after the other. Submitted by
# Rookery, in {chdir}, with
#   {submission}
{exports}
sweep={sweep}
train=({train})

# In an array, the id of a job alone means all its tasks.
job=$SLURM_JOB_ID
if [[ -n $SLURM_ARRAY_TASK_ID ]]; then
    job=${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID
fi
say() {{ echo "$(date '+%F %T') task $job on $(hostname): $*" >&2; }}

if [[ ! -f $sweep/{plan} ]]; then
    say "error: $sweep/{plan} is not there: sweeps must be on a disk that all nodes share."
    exit 2
fi
say "start${{SLURM_RESTART_COUNT:+ again (number $SLURM_RESTART_COUNT)}}"
began=$sweep/{slurm}/.began-$job
touch "$began"

# Slurm sends USR1 to this shell before the time is over, and TERM when it needs the node.
signal=
training=
pass_on() {{
    signal=$1
    if [[ -n $training ]]; then kill -s "$1" "$training" 2>/dev/null; fi
}}
trap 'pass_on USR1' USR1
trap 'pass_on TERM' TERM
"${{train[@]}}" &
training=$!
if [[ -n $signal ]]; then pass_on "$signal"; fi  # it came before there was anyone to tell
while [[ -n $(jobs -rp) ]]; do wait "$training"; done  # a signal ends `wait` early
wait "$training"
code=$?
training=
saved=$(find "$sweep" -maxdepth 4 -path '*/checkpoints/ckpt-*' -newer "$began" -print -quit)
rm -f "$began"

# 138 and 143 are USR1 and TERM, if they came before the training could react to them.
if [[ $code != {unfinished} && $code != 138 && $code != 143 ]]; then
    say "end (exit code $code)"
    exit "$code"
fi
state=$(squeue --noheader --jobs="$job" --format=%T)
if [[ $state == COMPLETING || $state == CANCELLED ]]; then
    say "Slurm is ending this task: it was cancelled, or Slurm itself puts it back"
elif [[ $signal != TERM && -z $saved ]]; then
    say "error: no round was finished within the time of this task, and it would never be" \
        "otherwise: give it more, with: {again} --slurm time=…"
else
    trap '' TERM  # which is what Slurm sends when it puts a task back into the queue
    # Incomplete: not if it was cancelled just now, which would undo that.
    if scontrol requeue Incomplete "$job"; then
        say "back in the queue"
        exit 0
    fi
    say "error: Slurm did not put this task back into the queue; go on with: {again}"
fi
exit "$code"
"""


def script_text(
    sweep: Path,
    train: Sequence[str],
    submission: Sequence[str],
    again: str,
    environment: Mapping[str, str],
    chdir: Path,
    plan: str,
) -> str:
    """Return the script that all tasks of an array run.

    Args:
        sweep: the folder of the sweep, as all nodes see it.
        train: the command that takes cells until none is free.
        submission: the command that submits the script.
        again: the command that submits whatever is left of the sweep.
        environment: variables to set, which Slurm may not pass on.
        chdir: the folder that it runs in.
        plan: the file that a sweep has.
    """
    return TEXT.format(
        sweep=shlex.quote(str(sweep)),
        train=shlex.join(train),
        submission=_in_comment(shlex.join(submission)),
        again=_in_quotes(again),
        exports="".join(
            f"export {name}={shlex.quote(value)}\n" for name, value in environment.items()
        ),
        chdir=_in_comment(str(chdir)),
        plan=plan,
        slurm=SLURM,
        unfinished=UNFINISHED,
    )


def _in_comment(text: str) -> str:
    return "\n#   ".join(text.splitlines())


def _in_quotes(text: str) -> str:
    """Return a text as it is written between double quotes of a shell."""
    for character in '\\"$`':
        text = text.replace(character, f"\\{character}")
    return text
