"""What a process may use by its control groups: its own and all above, old and new."""

from __future__ import annotations

from pathlib import Path

import pytest

from rookery.shm.limits import left_in_groups

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
    """A machine in a folder: what /proc says of a process, and its groups."""

    def __init__(self, root: Path) -> None:
        self.root, self.process = root, root / "proc"
        self.process.mkdir()
        self.say(cgroup="", mountinfo=DISK)

    def say(self, **files: str) -> None:
        for name, text in files.items():
            (self.process / name).write_text(text + "\n")

    def group(self, path: str, generation: int, left: int | None, used: int = 1000) -> Path:
        """Make a group that may use some more bytes; None: it has no limit."""
        folder = self.root / path.lstrip("/")
        folder.mkdir(parents=True, exist_ok=True)
        limit = NO_LIMIT[generation] if left is None else str(used + left)
        for name, number in zip(NAMES[generation], (limit, str(used)), strict=True):
            (folder / name).write_text(number + "\n")
        return folder

    @property
    def left(self) -> int | None:
        return left_in_groups(self.process, self.root)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def mounted(line: str, point: str, top: str = "/") -> str:
    return "\n".join([DISK, CPU, line.format(top=top, point=point)])


@pytest.mark.parametrize(
    ("generation", "point", "line", "own"),
    [
        (1, V1, MEMORY, "4:memory:/jobs/42\n2:cpu,cpuacct:/other\n0::/"),
        (2, V2, UNIFIED, "0::/jobs/42"),
    ],
    ids=["first generation", "second generation"],
)
@pytest.mark.parametrize("tight", ["", "/jobs", "/jobs/42"], ids=["top", "between", "own"])
def test_the_smallest_limit_from_the_own_group_up_counts(
    machine: Machine, generation: int, point: str, line: str, own: str, tight: str
) -> None:
    machine.say(cgroup=own, mountinfo=mounted(line, point))
    for path in ("", "/jobs", "/jobs/42"):
        machine.group(point + path, generation, 500 if path == tight else 9000)
    machine.group(f"{point}/jobs/42/within", generation, 1)
    machine.group(f"{point}/jobs/43", generation, 2)

    assert machine.left == 500


@pytest.mark.parametrize(
    ("generation", "point", "line", "own"),
    [(1, V1, MEMORY, "4:memory:/job"), (2, V2, UNIFIED, "0::/job")],
    ids=["first generation", "second generation"],
)
def test_a_group_without_a_limit_leaves_it_to_those_above(
    machine: Machine, generation: int, point: str, line: str, own: str
) -> None:
    machine.say(cgroup=own, mountinfo=mounted(line, point))
    machine.group(point, generation, 700)
    machine.group(f"{point}/job", generation, None)

    assert machine.left == 700


def test_where_both_generations_are_mounted_the_one_that_counts_memory_is_read(
    machine: Machine,
) -> None:
    both = mounted(MEMORY, V1) + "\n" + UNIFIED.format(top="/", point=f"{V2}/unified")
    machine.say(cgroup="4:memory:/job\n0::/user/session", mountinfo=both)
    machine.group(f"{V1}/job", 1, 600)
    (machine.root / f"{V2}/unified/user/session".lstrip("/")).mkdir(parents=True)

    assert machine.left == 600


def test_in_a_container_the_mounted_group_is_the_containers_own(machine: Machine) -> None:
    own = "/docker/4f1c"
    machine.say(cgroup=f"4:memory:{own}/nested", mountinfo=mounted(MEMORY, V1, top=own))
    machine.group(V1, 1, 800)
    machine.group(f"{V1}/nested", 1, 300)

    assert machine.left == 300


@pytest.mark.parametrize("own", ["/elsewhere", "/../sibling"], ids=["other", "outside"])
def test_a_group_that_is_not_mounted_is_judged_by_the_top_that_is(
    machine: Machine, own: str
) -> None:
    machine.say(cgroup=f"0::{own}", mountinfo=mounted(UNIFIED, V2, top="/pod"))
    machine.group(V2, 2, 250)

    assert machine.left == 250


def test_a_mount_point_may_have_blanks_in_its_name(machine: Machine) -> None:
    machine.say(cgroup="0::/a:b", mountinfo=mounted(UNIFIED, r"/my\040groups"))
    machine.group("/my groups/a:b", 2, 150)

    assert machine.left == 150


def test_a_group_that_uses_more_than_it_may_has_nothing_left(machine: Machine) -> None:
    machine.say(cgroup="0::/", mountinfo=mounted(UNIFIED, V2))
    machine.group(V2, 2, -500)

    assert machine.left == 0


@pytest.mark.parametrize(
    "stat",
    [
        "anon 500\nactive_file 300\ninactive_file 100\n",
        "active_file 3\ninactive_file 1\ntotal_active_file 300\ntotal_inactive_file 100\n",
    ],
    ids=["second generation", "first generation"],
)
def test_files_that_a_group_has_read_do_not_count_as_used(
    machine: Machine, stat: str
) -> None:
    machine.say(cgroup="0::/", mountinfo=mounted(UNIFIED, V2))
    group = machine.group(V2, 2, 12345)

    (group / "memory.stat").write_text(stat)

    assert machine.left == 12345 + 400


def test_without_groups_there_is_no_limit(machine: Machine) -> None:
    assert machine.left is None

    machine.say(cgroup="4:memory:/gone\n0::/gone", mountinfo=mounted(MEMORY, V1))
    assert machine.left is None


def test_where_the_system_says_nothing_there_is_no_limit(tmp_path: Path) -> None:
    assert left_in_groups(tmp_path / "none") is None
