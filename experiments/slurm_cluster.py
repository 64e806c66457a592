"""A private Slurm cluster of one node, for tests: munged, slurmctld and slurmd.

It is on this machine. Its configuration, keys, sockets and logs are in one temporary
folder, and it listens on loopback only. At the end all its processes are gone, and so is
the folder.

    with Cluster(cpus=2) as cluster:
        cluster.run("sbatch", "script.sh")
"""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

DAEMONS = ("munged", "slurmctld", "slurmd")
CLIENTS = ("sbatch", "scancel", "scontrol", "sinfo", "squeue")
PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
START_SECONDS, COMMAND_SECONDS = 60.0, 30.0
CONFIGURATION = """
ClusterName=private
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire={requeue_seconds}
CredType=cred/munge
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmdParameters=config_overrides
ReturnToService=2
JobRequeue=1
KillWait={kill_wait}
MaxArraySize={largest_array}
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=low Nodes={host} Default=YES PriorityTier=1 State=UP GraceTime={grace}
PartitionName=high Nodes={host} PriorityTier=2 PreemptMode=OFF State=UP
"""


def missing() -> str:
    """Return which programs of Slurm are not installed; '' if all are."""
    absent = [name for name in (*DAEMONS, *CLIENTS) if not shutil.which(name, path=PATH)]
    if not absent:
        return ""
    return (
        f"Slurm is not installed ({', '.join(absent)}): on Debian, "
        "apt-get install slurmctld slurmd slurm-client munge"
    )


class Cluster:
    """A cluster of one node; a context manager.

    Jobs of the partition `high` take the node away from those of `low`, the default.

    Args:
        cpus: how many the node pretends to have.
        requeue_seconds: how long a job that was put back into the queue has to wait: at
            least 5. It is also how long the daemons may take to start a job.
        kill_wait: seconds from SIGTERM to SIGKILL.
        grace: seconds that jobs of `low` have when the node is taken away from them.
        largest_array: how many tasks a job array can have.
    """

    def __init__(
        self,
        cpus: int = 2,
        requeue_seconds: int = 5,
        kill_wait: int = 20,
        grace: int = 0,
        largest_array: int = 1001,
    ) -> None:
        # Not in a test's own folder: paths of sockets have to be short.
        self.folder = Path(tempfile.mkdtemp(prefix="slurm-"))
        self._conf = self.folder / "slurm.conf"
        self.environment = {"SLURM_CONF": str(self._conf), "PATH": PATH}
        self._daemons: list[subprocess.Popen[bytes]] = []
        ports = _free_ports(2)
        self._conf.write_text(
            CONFIGURATION.format(
                host=socket.gethostname().partition(".")[0],
                user=getpass.getuser(),
                folder=self.folder,
                controller_port=ports[0],
                node_port=ports[1],
                cpus=cpus,
                requeue_seconds=requeue_seconds,
                kill_wait=kill_wait,
                grace=grace,
                largest_array=largest_array,
            )
        )

    def __enter__(self) -> Cluster:
        try:
            self._start_munge()
            for name in ("state", "spool"):
                (self.folder / name).mkdir()
            self._start("slurmctld", "-D", "-i", "-f", str(self._conf))
            self._wait(lambda: "UP" in self._try("scontrol", "ping"))
            self._start("slurmd", "-D", "-f", str(self._conf))
            self._wait(
                lambda: self._try("sinfo", "--noheader", "--format=%T")[:4] == "idle"
            )
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _start_munge(self) -> None:
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        files = {
            "socket": "munge.socket",
            "key-file": key.name,
            "pid-file": "munge.pid",
            "log-file": "munge.log",
            "seed-file": "munge.seed",
        }
        options = [f"--{name}={self.folder / file}" for name, file in files.items()]
        self._start("munged", "--foreground", "--force", *options)
        self._wait((self.folder / "munge.socket").exists)

    def _start(self, *words: str) -> None:
        with (self.folder / f"{words[0]}.out").open("wb") as out:
            daemon = subprocess.Popen(
                words,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=self.folder,
            )
        self._daemons.append(daemon)

    def _wait(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not condition():
            ended = [daemon for daemon in self._daemons if daemon.poll() is not None]
            if ended or time.monotonic() > deadline:
                raise RuntimeError(f"the cluster does not start:\n{self.logs()}")
            time.sleep(0.05)

    def logs(self) -> str:
        """Return what all daemons have printed."""
        files = sorted([*self.folder.glob("*.out"), *self.folder.glob("*.log")])
        return "\n".join(f"{x.name}:\n{x.read_text(errors='replace')}" for x in files)

    def run(self, *words: str) -> str:
        """Run a command of Slurm and return what it prints."""
        done = self._run(words)
        if done.returncode:
            raise RuntimeError(f"{words}: {done.stderr}")
        return done.stdout

    def _try(self, *words: str) -> str:
        return self._run(words).stdout

    def _run(self, words: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words,
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
        )

    def tasks(self, job: str) -> Mapping[str, str]:
        """Return the states of a job's tasks, also of those that have ended, by id."""
        format_ = ("--noheader", "--array", "--states=all", "--format=%i %T")
        return dict(
            map(str.split, self.run("squeue", f"--job={job}", *format_).splitlines())
        )

    def close(self) -> None:
        """End all jobs and daemons, and delete everything."""
        # Daemons first: they must not put jobs back into the queue.
        for daemon in reversed(self._daemons):
            daemon.kill()
            daemon.wait()
        while processes := self._processes():
            for pid in processes:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            time.sleep(0.05)
        shutil.rmtree(self.folder)

    def _processes(self) -> list[int]:
        """Return the processes that know of this cluster: those of its jobs."""
        mark, processes = f"SLURM_CONF={self._conf}".encode(), []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                is_ours = mark in (folder / "environ").read_bytes().split(b"\0")
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:  # it has ended, or is not ours
                continue
            if is_ours and state not in "ZX" and int(folder.name) != os.getpid():
                processes.append(int(folder.name))
        return processes


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
