"""How much memory the control groups of a process still allow, in both versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from rookery.shm.limits import cgroup_bytes_left, cgroup_cores

NO_LIMIT = {1: "9223372036854771712", 2: "max"}
NAMES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    2: ("memory.max", "memory.current"),
}
MEMORY = "35 31 0:32 {top} {point} rw,relatime shared:9 - cgroup cgroup rw,memory"
CPU = "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct"
UNIFIED = "41 31 0:38 {top} {point} rw,nosuid,relatime - cgroup2 cgroup2 rw,nsdelegate"
DISK = "23 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw"
V1, V2 = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"


class Machine:
    """A machine in a folder: the files of a process in /proc, and its groups."""

    def __init__(self, root: Path) -> None:
        self.root, self.process = root, root / "proc"
        self.process.mkdir()
        self.write(cgroup="", mountinfo=DISK)

    def write(self, **files: str) -> None:
        for name, text in files.items():
            (self.process / name).write_text(text + "\n")

    def group(self, path: str, version: int, left: int | None, used: int = 1000) -> Path:
        """Make a group that allows so many more bytes; None: it has no limit."""
        folder = self.root / path.lstrip("/")
        folder.mkdir(parents=True, exist_ok=True)
        limit = NO_LIMIT[version] if left is None else str(used + left)
        for name, number in zip(NAMES[version], (limit, str(used)), strict=True):
            (folder / name).write_text(number + "\n")
        return folder

    @property
    def left(self) -> int | None:
        return cgroup_bytes_left(self.process, self.root)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def mounted(line: str, point: str, top: str = "/") -> str:
    return "\n".join([DISK, CPU, line.format(top=top, point=point)])


@pytest.mark.parametrize(
    ("version", "point", "line", "own"),
    [
        (1, V1, MEMORY, "4:memory:/jobs/42\n2:cpu,cpuacct:/other\n0::/"),
        (2, V2, UNIFIED, "0::/jobs/42"),
    ],
    ids=["version 1", "version 2"],
)
@pytest.mark.parametrize("tight", ["", "/jobs", "/jobs/42"], ids=["top", "between", "own"])
def test_the_smallest_limit_of_a_group_and_those_above_applies(
    machine: Machine, version: int, point: str, line: str, own: str, tight: str
) -> None:
    machine.write(cgroup=own, mountinfo=mounted(line, point))
    for path in ("", "/jobs", "/jobs/42"):
        machine.group(point + path, version, 500 if path == tight else 9000)
    machine.group(f"{point}/jobs/42/within", version, 1)
    machine.group(f"{point}/jobs/43", version, 2)

    assert machine.left == 500


@pytest.mark.parametrize(
    ("version", "point", "line", "own"),
    [(1, V1, MEMORY, "4:memory:/job"), (2, V2, UNIFIED, "0::/job")],
    ids=["version 1", "version 2"],
)
def test_if_a_group_has_no_limit_those_above_apply(
    machine: Machine, version: int, point: str, line: str, own: str
) -> None:
    machine.write(cgroup=own, mountinfo=mounted(line, point))
    machine.group(point, version, 700)
    machine.group(f"{point}/job", version, None)

    assert machine.left == 700


def test_if_both_versions_are_mounted_the_one_that_limits_memory_applies(
    machine: Machine,
) -> None:
    mounts = mounted(MEMORY, V1) + "\n" + UNIFIED.format(top="/", point=f"{V2}/unified")
    machine.write(cgroup="4:memory:/job\n0::/user/session", mountinfo=mounts)
    machine.group(f"{V1}/job", 1, 600)
    (machine.root / f"{V2}/unified/user/session".lstrip("/")).mkdir(parents=True)

    assert machine.left == 600


def test_in_a_container_the_mounted_group_is_that_of_the_container(
    machine: Machine,
) -> None:
    own = "/docker/4f1c"
    machine.write(cgroup=f"4:memory:{own}/nested", mountinfo=mounted(MEMORY, V1, top=own))
    machine.group(V1, 1, 800)
    machine.group(f"{V1}/nested", 1, 300)

    assert machine.left == 300


@pytest.mark.parametrize("own", ["/elsewhere", "/../sibling"], ids=["other", "outside"])
def test_for_a_group_that_is_not_mounted_the_mounted_top_applies(
    machine: Machine, own: str
) -> None:
    machine.write(cgroup=f"0::{own}", mountinfo=mounted(UNIFIED, V2, top="/pod"))
    machine.group(V2, 2, 250)

    assert machine.left == 250


def test_a_mount_point_can_have_spaces_in_its_name(machine: Machine) -> None:
    machine.write(cgroup="0::/a:b", mountinfo=mounted(UNIFIED, r"/my\040groups"))
    machine.group("/my groups/a:b", 2, 150)

    assert machine.left == 150


def test_a_group_beyond_its_limit_has_nothing_left(machine: Machine) -> None:
    machine.write(cgroup="0::/", mountinfo=mounted(UNIFIED, V2))
    machine.group(V2, 2, -500)

    assert machine.left == 0


@pytest.mark.parametrize(
    "stat",
    [
        "anon 500\nactive_file 300\ninactive_file 100\n",
        "active_file 3\ninactive_file 1\ntotal_active_file 300\ntotal_inactive_file 100\n",
    ],
    ids=["version 2", "version 1"],
)
def test_cached_files_do_not_count_as_used(machine: Machine, stat: str) -> None:
    machine.write(cgroup="0::/", mountinfo=mounted(UNIFIED, V2))
    group = machine.group(V2, 2, 12345)

    (group / "memory.stat").write_text(stat)

    assert machine.left == 12345 + 400


def test_without_groups_there_is_no_limit(machine: Machine) -> None:
    assert machine.left is None

    machine.write(cgroup="4:memory:/gone\n0::/gone", mountinfo=mounted(MEMORY, V1))
    assert machine.left is None


def test_without_proc_there_is_no_limit(tmp_path: Path) -> None:
    assert cgroup_bytes_left(tmp_path / "none") is None


CPU_POINT = "/sys/fs/cgroup/cpu"
QUOTAS = {
    1: lambda share: {"cpu.cfs_quota_us": f"{share or -1}", "cpu.cfs_period_us": "100000"},
    2: lambda share: {"cpu.max": f"{share or 'max'} 100000"},
}


@pytest.mark.parametrize(
    ("version", "point", "own"),
    [(1, CPU_POINT, "2:cpu,cpuacct:/jobs/42\n0::/"), (2, V2, "0::/jobs/42")],
    ids=["version 1", "version 2"],
)
@pytest.mark.parametrize(
    ("top", "between", "inner", "cores"),
    [
        (None, None, None, None),
        (None, 250_000, None, 2.5),
        (400_000, None, 150_000, 1.5),
        (100_000, 300_000, None, 1.0),
    ],
)
def test_the_smallest_share_of_processors_of_a_group_and_those_above_applies(
    machine: Machine,
    version: int,
    point: str,
    own: str,
    top: int | None,
    between: int | None,
    inner: int | None,
    cores: float | None,
) -> None:
    unified = UNIFIED.format(top="/", point=V2)
    mounts = "\n".join([DISK, CPU if version == 1 else unified])
    machine.write(cgroup=own, mountinfo=mounts)
    for path, share in (("", top), ("/jobs", between), ("/jobs/42", inner)):
        folder = machine.root / f"{point}{path}".lstrip("/")
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in QUOTAS[version](share).items():
            (folder / name).write_text(text + "\n")

    assert cgroup_cores(machine.process, machine.root) == cores
