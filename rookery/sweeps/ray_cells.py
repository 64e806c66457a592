"""Ray: reaching the nodes of a cluster. No other module imports it.

A cell is an actor of Ray, in a process of its own. Ray restarts nothing by itself: what is
lost is sent again, from what has arrived.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any

from rookery.errors import ConfigError, RookeryError
from rookery.plugins import describe_error
from rookery.stop import SIGNALS, StopFlag
from rookery.sweeps.cluster import Lost, Node
from rookery.sweeps.host import CellHost, News, Task, describe_machine
from rookery.sweeps.plan import Plan
from rookery.sweeps.ray_address import LOCAL, MODE, TOKEN, ray_address
from rookery.sweeps.remote import RemoteSweep
from rookery.sweeps.tally import Outcome, Progress, Say
from rookery.training.autoscale import cores

SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # One lost node would print pages.
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",
    # Under `uv run`, Ray would send the whole working directory to all nodes.
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
}
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Makes Ray listen on 127.0.0.1 only; read when Ray is imported.

Elsewhere than on Windows and macOS, it takes 127.0.0.1 for the machine's address otherwise.
"""
NEWS_SECONDS = 2.0
"""How long a node waits for news of a cell before it answers."""
DESCRIBE_SECONDS = 120.0
KNOCK_SECONDS = 10.0


class NoCluster(RookeryError):
    """A Ray cluster cannot be reached or started."""


def check_ray(address: str | None) -> None:
    """Check that Ray is installed, and the address of the cluster.

    Raises:
        ConfigError: if it is not, or the cluster is not safe.
    """
    _import_ray(ray_address(address))


def _import_ray(address: str) -> Any:
    """Return the module; it reads settings and the token when it is imported first."""
    os.environ.update(SETTINGS)
    if address == LOCAL:
        os.environ.update(LOOPBACK)
        if os.environ.get(MODE) != "token":
            os.environ.update({MODE: "token", TOKEN: secrets.token_hex(32)})
    try:
        import ray
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise ConfigError("--on ray needs Ray: pip install 'rookery[ray]'") from error
    return ray


class RaySweep:
    """Trains a sweep on a Ray cluster.

    Args:
        address: of the cluster; None for the one in the environment, or a local one.
    """

    def __init__(
        self,
        address: str | None,
        plan: Plan,
        stop: StopFlag,
        progress: Progress,
        say: Say,
        warn: Say,
    ) -> None:
        self._address, self._parts = address, (plan, stop, progress, say, warn)

    def run(self) -> Outcome:
        """Train until all cells are done or have failed; see `RemoteSweep.run`."""
        with connected(self._address) as cluster:
            return RemoteSweep(*self._parts, cluster).run()


@contextmanager
def connected(address: str | None) -> Iterator[RayCluster]:
    """Connect to a cluster, or start a local one that ends with this context.

    Meanwhile, what is printed goes to standard error: Ray prints notices, about nodes that
    it has lost for example, and standard output is for results.

    Raises:
        NoCluster: if that fails.
    """
    target = ray_address(address)
    ray = _import_ray(target)
    _knock(target)
    options: dict[str, Any] = {"address": target}
    if target == LOCAL:
        options |= {
            "num_cpus": cores(),
            "include_dashboard": False,
            "_node_ip_address": "127.0.0.1",
        }
    with redirect_stdout(sys.stderr):
        try:
            with _keeping_handlers():
                ray.init(**options, log_to_driver=False, logging_level=logging.CRITICAL)
        except Exception as error:
            ray.shutdown()
            where = "start a Ray cluster here" if target == LOCAL else f"reach {target}"
            raise NoCluster(f"cannot {where}: {describe_error(error):.300}") from error
        try:
            yield RayCluster(ray)
        finally:
            with _keeping_handlers():
                ray.shutdown()


def _knock(address: str) -> None:
    """Check that something answers at an address: Ray would wait for a minute.

    Raises:
        NoCluster: if not.
    """
    host, colon, port = address.rpartition(":")
    if colon:
        try:
            socket.create_connection((host.strip("[]"), int(port)), KNOCK_SECONDS).close()
        except OSError as error:
            reason = error.strerror or str(error)
            raise NoCluster(
                f"cannot reach {address}: nothing answers there ({reason})."
            ) from error


@contextmanager
def _keeping_handlers() -> Iterator[None]:
    """Keep the handlers of signals, which Ray replaces."""
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
    finally:
        with suppress(ValueError):  # another thread than the first has none
            for number, handler in handlers.items():
                signal.signal(number, handler)


class _RayHost:
    """A cell on a node of a Ray cluster."""

    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray, self.actor = ray, actor
        self.answer: Any = None
        """The object that its next reply will be."""

    def stop(self) -> None:
        """Ask it to save and to leave."""
        self.actor.stop.remote()

    def end(self) -> None:
        """End its process at once."""
        self.answer = None
        with suppress(Exception):
            self._ray.kill(self.actor)


class RayCluster:
    """The nodes of a Ray cluster that this process is connected to.

    Args:
        ray: the module.
    """

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._actor = ray.remote(CellHost)
        self._hosts: list[_RayHost] = []

    def nodes(self) -> Sequence[Node]:
        """Return the nodes that are there now and have processors for us."""
        nodes = []
        for node in self._ray.nodes():
            cpus = float(node["Resources"].get("CPU", 0.0))
            if node["Alive"] and cpus > 0:
                name = f"node {node['NodeManagerAddress']} ({node['NodeID'][:8]})"
                nodes.append(Node(node["NodeID"], name, cpus))
        return nodes

    def start(self, node: Node, cpus: float, task: Task) -> _RayHost:
        """Send a cell to a node."""
        actor = self._actor.options(
            num_cpus=cpus,
            max_restarts=0,
            max_task_retries=0,
            scheduling_strategy=self._at(node),
        ).remote()
        host = _RayHost(self._ray, actor)
        host.answer = actor.begin.remote(task)
        self._hosts.append(host)
        return host

    def _at(self, node: Node) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        return NodeAffinitySchedulingStrategy(node.id, soft=False)

    def replies(self, seconds: float) -> Sequence[tuple[_RayHost, News | Lost]]:
        """Return what has arrived; wait for the first, but not longer than this."""
        self._hosts = [host for host in self._hosts if host.answer is not None]
        if not self._hosts:
            return []
        waiting = {host.answer: host for host in self._hosts}
        ready, _ = self._ray.wait(list(waiting), num_returns=1, timeout=seconds)
        if ready:
            ready, _ = self._ray.wait(list(waiting), num_returns=len(waiting), timeout=0)
        return [(waiting[answer], self._reply(waiting[answer])) for answer in ready]

    def _reply(self, host: _RayHost) -> News | Lost:
        """Take the reply of a host, and ask it for the next one."""
        answer, host.answer = host.answer, None
        reply = self._get(answer)
        if isinstance(reply, News) and reply.code is None:
            host.answer = host.actor.news.remote(NEWS_SECONDS)
        return reply

    def _get(self, answer: Any, seconds: float | None = None) -> Any:
        """Return a node's answer; `Lost` if it has none."""
        errors = self._ray.exceptions
        try:
            return self._ray.get(answer, timeout=seconds)
        except errors.GetTimeoutError:
            return Lost("its node does not answer")
        except errors.RayTaskError as error:
            return Lost(f"its process raised {describe_error(error.cause or error):.300}")
        except errors.ActorUnschedulableError:
            return Lost("its node has left the cluster")
        except errors.ActorUnavailableError:
            return Lost("its node does not respond")
        except errors.RayError as error:
            return Lost(f"its process or its node was lost ({type(error).__name__})")

    def describe(self) -> list[tuple[Node, dict[str, Any] | Lost]]:
        """Return what every node computes with, or why that is not known."""
        describe = self._ray.remote(describe_machine)
        answers = [
            (
                node,
                describe.options(
                    num_cpus=0, max_retries=0, scheduling_strategy=self._at(node)
                ).remote(),
            )
            for node in self.nodes()
        ]
        return [(node, self._get(answer, DESCRIBE_SECONDS)) for node, answer in answers]


def on_ray(address: str | None) -> Callable[..., RaySweep]:
    """Return what makes a `RaySweep` at an address, in place of a `LocalSweep`."""

    def make(
        plan: Plan, stop: StopFlag, progress: Progress, say: Say, warn: Say
    ) -> RaySweep:
        return RaySweep(address, plan, stop, progress, say, warn)

    return make
