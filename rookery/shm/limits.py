"""How much memory the control groups of this process still allow.

Containers, SLURM and systemd limit memory by control groups, of two generations, which
nest: a process is in one group of each hierarchy, and every group above it counts too. The
system kills whoever goes beyond the smallest limit, so that is the one that matters.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

Files = tuple[str, str]
"""What a group's limit is called, and what it uses."""
FIRST: Files = ("memory.limit_in_bytes", "memory.usage_in_bytes")
SECOND: Files = ("memory.max", "memory.current")
PROCESS = Path("/proc/self")


def left_in_groups(process: Path = PROCESS, root: Path = Path("/")) -> int | None:
    """Return how many bytes all groups of a process still allow; None: no limit is known.

    Args:
        process: its folder in /proc.
        root: what the mount points in there are below.
    """
    try:
        texts = [os.fsdecode((process / x).read_bytes()) for x in ("cgroup", "mountinfo")]
    except OSError:
        return None
    found = []
    for folder, files in groups_of(*texts):
        with suppress(OSError, ValueError):  # no such file, or 'max'
            found.append(_left_in(root / folder.relative_to("/"), files))
    return min(found, default=None)


def groups_of(cgroup: str, mountinfo: str) -> Iterator[tuple[PurePosixPath, Files]]:
    """Return the folders of a process's groups, innermost first, and what is in them.

    Args:
        cgroup: what /proc/PID/cgroup says.
        mountinfo: what /proc/PID/mountinfo says.
    """
    for generation, top, point in _mounts(mountinfo):
        for files, path in _memberships(cgroup):
            if files is not generation:
                continue
            inside = path.is_relative_to(top) and ".." not in path.parts
            # Else its group is not mounted here, and the top is all there is to see.
            folder = point / path.relative_to(top) if inside else point
            for one in (folder, *folder.parents):
                yield one, files
                if one == point:
                    break


def _memberships(cgroup: str) -> Iterator[tuple[Files, PurePosixPath]]:
    for line in cgroup.splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield SECOND, PurePosixPath(path)
        elif "memory" in controllers.split(","):
            yield FIRST, PurePosixPath(path)


def _mounts(mountinfo: str) -> Iterator[tuple[Files, PurePosixPath, PurePosixPath]]:
    """Return the mounted hierarchies that count memory: which group is mounted where."""
    for line in mountinfo.splitlines():
        about, _, system = line.partition(" - ")
        top, point = (PurePosixPath(_plain(x)) for x in about.split()[3:5])
        kind, _, options = system.split()[:3]
        if kind == "cgroup2":
            yield SECOND, top, point
        elif kind == "cgroup" and "memory" in options.split(","):
            yield FIRST, top, point


def _plain(path: str) -> str:
    """Return a path in which blanks are written as numbers, as it is."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), path)


def _left_in(group: Path, files: Files) -> int:
    limit, used = (int((group / name).read_text()) for name in files)
    return max(0, limit - used + _given_back(group))


def _given_back(group: Path) -> int:
    """Return how much of what a group uses are files, which the system drops if it must."""
    try:
        text = (group / "memory.stat").read_text()
    except OSError:
        return 0
    stat = {name: int(size) for name, size in map(str.split, text.splitlines())}
    # The first generation counts groups within the group under names of their own.
    files = ("active_file", "inactive_file")
    return sum(stat.get(f"total_{name}", stat.get(name, 0)) for name in files)
