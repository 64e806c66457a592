"""What the control groups (cgroups) of this process allow: memory and processor time.

Containers, SLURM and systemd set limits by control groups, version 1 or 2. Groups nest: a
process is in one group of each hierarchy, and the limits of all groups above it apply too.
The system kills a process that exceeds the smallest limit of memory, and slows down one
that exceeds the smallest limit of processor time.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

PROCESS = Path("/proc/self")
ROOT = Path("/")
V1, V2 = 1, 2


def cgroup_bytes_left(process: Path = PROCESS, root: Path = ROOT) -> int | None:
    """Return how many more bytes all groups of a process allow; None if there is no limit.

    Args:
        process: the process's folder in /proc.
        root: the folder that mount points are relative to.
    """
    bytes_left = []
    for folder, version in _groups("memory", process):
        with suppress(OSError, ValueError):  # no such file, or 'max'
            bytes_left.append(_bytes_left(root / folder.relative_to("/"), version))
    return min(bytes_left, default=None)


def cgroup_cores(process: Path = PROCESS, root: Path = ROOT) -> float | None:
    """Return how many cores all groups of a process allow; None if there is no limit."""
    cores = []
    for folder, version in _groups("cpu", process):
        with suppress(OSError, ValueError):  # no such file, or 'max'
            cores.append(_cores(root / folder.relative_to("/"), version))
    return min(filter(None, cores), default=None)


def _groups(controller: str, process: Path) -> list[tuple[PurePosixPath, int]]:
    try:
        texts = [os.fsdecode((process / x).read_bytes()) for x in ("cgroup", "mountinfo")]
    except OSError:
        return []
    return list(groups(controller, *texts))


def groups(
    controller: str, cgroup: str, mountinfo: str
) -> Iterator[tuple[PurePosixPath, int]]:
    """Return the folders of a process's groups, innermost first, and their version.

    Args:
        controller: what the groups limit: memory or cpu.
        cgroup: the text of /proc/PID/cgroup.
        mountinfo: the text of /proc/PID/mountinfo.
    """
    for version, top, point in _mounts(controller, mountinfo):
        for group_version, path in _memberships(controller, cgroup):
            if group_version != version:
                continue
            is_mounted = path.is_relative_to(top) and ".." not in path.parts
            # If its own group is not mounted, the top of the mount is all we can see.
            innermost = point / path.relative_to(top) if is_mounted else point
            for folder in (innermost, *innermost.parents):
                yield folder, version
                if folder == point:
                    break


def _memberships(controller: str, cgroup: str) -> Iterator[tuple[int, PurePosixPath]]:
    for line in cgroup.splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield V2, PurePosixPath(path)
        elif controller in controllers.split(","):
            yield V1, PurePosixPath(path)


def _mounts(
    controller: str, mountinfo: str
) -> Iterator[tuple[int, PurePosixPath, PurePosixPath]]:
    """Return the hierarchies with a controller: version, mounted group, mount point."""
    for line in mountinfo.splitlines():
        mount, _, system = line.partition(" - ")
        top, point = (PurePosixPath(_unescaped(x)) for x in mount.split()[3:5])
        kind, _, options = system.split()[:3]
        if kind == "cgroup2":
            yield V2, top, point
        elif kind == "cgroup" and controller in options.split(","):
            yield V1, top, point


def _unescaped(path: str) -> str:
    """Return a path of mountinfo, where spaces are written as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)


def _bytes_left(group: Path, version: int) -> int:
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
    if version == V2:
        names = ("memory.max", "memory.current")
    limit, used = (int((group / name).read_text()) for name in names)
    return max(0, limit - used + _reclaimable(group))


def _reclaimable(group: Path) -> int:
    """Return how much of a group's usage is cached files, which the system can drop."""
    try:
        text = (group / "memory.stat").read_text()
    except OSError:
        return 0
    stat = {name: int(size) for name, size in map(str.split, text.splitlines())}
    # Version 1 has separate entries that include the groups within the group.
    files = ("active_file", "inactive_file")
    return sum(stat.get(f"total_{name}", stat.get(name, 0)) for name in files)


def _cores(group: Path, version: int) -> float | None:
    """Return the processor time that a group has per time; None if it is not limited."""
    if version == V2:
        quota, period = map(int, (group / "cpu.max").read_text().split())
    else:
        names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        quota, period = (int((group / name).read_text()) for name in names)
    return quota / period if quota > 0 and period > 0 else None  # -1 is no limit
