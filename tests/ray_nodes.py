"""A Ray cluster of several nodes on this machine, in a process of its own.

Importing Ray here would leave its threads and warnings in the process of the tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any, Self

CODE = """
import json, os, signal, sys
from ray.cluster_utils import Cluster

signal.signal(signal.SIGINT, signal.SIG_IGN)
cluster, nodes, environment = None, {}, dict(os.environ)
for line in sys.stdin:
    request = json.loads(line)
    if request["do"] == "add":
        os.environ.update(request["environment"])
        arguments = {
            "num_cpus": request["cpus"],
            "include_dashboard": False,
            "node_ip_address": "127.0.0.1",
            "object_store_memory": 100 * 2**20,
        }
        if cluster is None:
            cluster = Cluster(initialize_head=True, head_node_args=arguments)
            node = cluster.head_node
        else:
            node = cluster.add_node(**arguments)
        os.environ.clear()
        os.environ.update(environment)
        nodes[node.node_id] = node
        answer = node.node_id
    elif request["do"] == "remove":
        cluster.remove_node(nodes.pop(request["node"]), allow_graceful=False)
        answer = ""
    elif request["do"] == "remove all":
        for node in [*cluster.worker_nodes]:
            cluster.remove_node(node, allow_graceful=False)
        cluster.wait_for_nodes(timeout=100)  # until it knows that they are gone
        answer = ""
    else:
        answer = cluster.address
    print("answer", json.dumps(answer), flush=True)
if cluster is not None:
    cluster.shutdown()
"""
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Makes Ray use 127.0.0.1 only, instead of the machine's address."""
SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}


class RayNodes:
    """A cluster; its first node, the head, has no processors for cells."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", CODE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
            env=os.environ | SETTINGS | LOOPBACK,
        )

    def __enter__(self) -> Self:
        self.add(cpus=0)
        return self

    def __exit__(self, *error: Any) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()

    def _ask(self, **request: Any) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("answer "):
                return str(json.loads(line.removeprefix("answer ")))
        raise AssertionError("the cluster has ended")

    @property
    def address(self) -> str:
        """The address of the cluster."""
        return self._ask(do="address")

    def add(self, cpus: int = 1, **environment: str) -> str:
        """Start a node, and return its id."""
        return self._ask(do="add", cpus=cpus, environment=environment)

    def remove(self, node: str) -> None:
        """Kill all processes of a node."""
        self._ask(do="remove", node=node)

    def remove_all(self) -> None:
        """Kill all processes of all nodes except the head, and wait until it notices."""
        self._ask(do="remove all")
