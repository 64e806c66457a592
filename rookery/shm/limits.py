"""How much memory the control groups (cgroups) of this process still allow.

Containers, SLURM and systemd limit memory by control groups, version 1 or 2. Groups nest: a
process is in one group of each hierarchy, and the limits of all groups above it apply too.
The system kills a process that exceeds the smallest of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

Files = tuple[str, str]
"""The names of the files with a group's limit and its usage."""
V1: Files = ("memory.limit_in_bytes", "memory.usage_in_bytes")
V2: Files = ("memory.max", "memory.current")
PROCESS = Path("/proc/self")


def cgroup_bytes_left(process: Path = PROCESS, root: Path = Path("/")) -> int | None:
    """Return how many more bytes all groups of a process allow; None if there is no limit.

    Args:
        process: the process's folder in /proc.
        root: the folder that mount points are relative to.
    """
    try:
        texts = [os.fsdecode((process / x).read_bytes()) for x in ("cgroup", "mountinfo")]
    except OSError:
        return None
    bytes_left = []
    for folder, files in memory_groups(*texts):
        with suppress(OSError, ValueError):  # no such file, or 'max'
            bytes_left.append(_bytes_left(root / folder.relative_to("/"), files))
    return min(bytes_left, default=None)


def memory_groups(cgroup: str, mountinfo: str) -> Iterator[tuple[PurePosixPath, Files]]:
    """Return the folders of a process's groups, innermost first, and their files.

    Args:
        cgroup: the text of /proc/PID/cgroup.
        mountinfo: the text of /proc/PID/mountinfo.
    """
    for version, top, point in _mounts(mountinfo):
        for files, path in _memberships(cgroup):
            if files is not version:
                continue
            is_mounted = path.is_relative_to(top) and ".." not in path.parts
            # If its own group is not mounted, the top of the mount is all we can see.
            innermost = point / path.relative_to(top) if is_mounted else point
            for folder in (innermost, *innermost.parents):
                yield folder, files
                if folder == point:
                    break


def _memberships(cgroup: str) -> Iterator[tuple[Files, PurePosixPath]]:
    for line in cgroup.splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield V2, PurePosixPath(path)
        elif "memory" in controllers.split(","):
            yield V1, PurePosixPath(path)


def _mounts(mountinfo: str) -> Iterator[tuple[Files, PurePosixPath, PurePosixPath]]:
    """Return the hierarchies that limit memory: version, mounted group, mount point."""
    for line in mountinfo.splitlines():
        mount, _, system = line.partition(" - ")
        top, point = (PurePosixPath(_unescaped(x)) for x in mount.split()[3:5])
        kind, _, options = system.split()[:3]
        if kind == "cgroup2":
            yield V2, top, point
        elif kind == "cgroup" and "memory" in options.split(","):
            yield V1, top, point


def _unescaped(path: str) -> str:
    """Return a path of mountinfo, where spaces are written as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)


def _bytes_left(group: Path, files: Files) -> int:
    limit, used = (int((group / name).read_text()) for name in files)
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
