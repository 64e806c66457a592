"""Compiled loops: the rules that keep their bits the same everywhere."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rookery.kernels import COMPILING, kernel


@kernel
def multiply_add(a, b, c, out):
    """Write a × b + c."""
    for i in range(len(out)):
        out[i] = a[i] * b[i] + c[i]


@kernel
def total(numbers):
    """Return the sum, from the first number to the last."""
    result = np.float32(0)
    for number in numbers:
        result += number
    return result


def random_floats(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_a_product_and_a_sum_are_rounded_one_after_the_other(size):
    a, b, c = random_floats(3, size)
    out = np.empty(size, np.float32)
    multiply_add(a, b, c, out)
    assert out.tobytes() == (a * b + c).tobytes()


def test_a_sum_runs_in_order():
    numbers = random_floats(10_000)
    expected = np.float32(0)
    for number in numbers:
        expected = np.float32(expected + number)
    assert total(numbers) == expected


PROGRAM = """
import sys
import numpy as np
from rookery import kernels

def double(numbers):
    return numbers * 2

double.__module__ = sys.argv[1]
compiled = kernels.kernel(double)
compiled(np.ones(3))
compiled(np.ones(3, np.float32))
"""


def in_a_terminal(module: str) -> str:
    """Return what a process prints that compiles two versions of a function."""
    main, terminal = pty.openpty()
    command = [sys.executable, "-c", PROGRAM, module]
    subprocess.run(command, stderr=terminal, check=True)
    os.write(terminal, b"end\n")
    with os.fdopen(main, "rb", buffering=0) as printed:
        text = b""
        while b"end" not in text:
            text += printed.read(1024)
    os.close(terminal)
    return text.decode().replace("\r\n", "\n").removesuffix("end\n")


def test_a_compilation_is_announced_once_in_a_terminal():
    assert in_a_terminal("rookery.loops") == f"{COMPILING}\n"


def test_the_compilation_of_a_users_own_function_is_not_announced():
    assert in_a_terminal("mine") == ""


def test_without_a_folder_for_the_cache_a_kernel_is_compiled_in_every_process(tmp_path):
    """Neither the folder of the source file nor the user's cache can be written to."""
    program = tmp_path / "program.py"
    program.write_text(
        "import numpy as np\n"
        "import numba.core.caching as caching\n"
        "caching.CacheImpl._locator_classes = []\n"
        "from rookery.kernels import kernel\n"
        "print(kernel(lambda x: x + 1)(np.float32(1)))\n"
    )
    command = [sys.executable, str(program)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout == "2.0\n"


CALLER = """
import sys, numba
import rookery
from pathlib import Path
rookery.__path__.insert(0, str(Path(__file__).parent))
from rookery import kernels
kernels.__file__ = __file__  # the package is this folder
import callee
from numba.core import event
compilations = event.RecordingListener()
event.register("numba:compile", compilations)

@kernels.kernel
def call(x):
    return callee.double(x)

print(call(3.0), sum(e.is_start for _, e in compilations.buffer))
"""


def test_a_loop_is_compiled_again_when_a_loop_that_it_calls_has_changed(tmp_path):
    def write(factor: int) -> None:
        (tmp_path / "callee.py").write_text(
            "from rookery.kernels import kernel\n\n\n@kernel\ndef double(x):\n"
            f"    return {factor} * x\n"
        )

    def run() -> str:
        command = [sys.executable, "caller.py"]
        return subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout

    (tmp_path / "caller.py").write_text(CALLER)
    write(2)
    assert run() == "6.0 2\n"  # the result, and how many functions were compiled
    assert run() == "6.0 0\n"
    write(50)
    assert run() == "150.0 2\n"


def test_processes_that_compile_at_the_same_time_get_their_own_code(tmp_path):
    (tmp_path / "shared.py").write_text(
        "import sys\nimport numpy as np\nfrom rookery.kernels import kernel\n\n\n"
        "@kernel\ndef total(x):\n    s = x[0] * 0\n    for y in x:\n        s += y\n"
        "    return s\n\n\n"
        "print(total(np.arange(8, dtype=sys.argv[1])), total._cache_hits)\n"
    )
    types = ["float32", "float64", "int32", "int64", "uint8", "uint16"]

    def start(name: str) -> subprocess.Popen[str]:
        command = [sys.executable, "shared.py", name]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=tmp_path, stdout=pipe, text=True)

    for _ in range(2):
        running = [start(name) for name in types]
        printed = [process.communicate(timeout=120)[0] for process in running]
        assert [float(line.split()[0]) for line in printed] == [28.0] * len(types)
    assert all("1" in line.split(maxsplit=1)[1] for line in printed)  # all were loaded


def test_the_users_own_numba_settings_are_left_alone():
    code = (
        "import os, numba; before = dict(numba.config.__dict__); import rookery.kernels; \
after = dict(numba.config.__dict__); print(before == after)"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)}
    command = [sys.executable, "-c", code]
    result = subprocess.run(
        command, capture_output=True, text=True, check=True, env=environment
    )
    assert result.stdout == "True\n"


def count_compilations(steps: str) -> str:
    """Return a program that prints how many kernels of its own some steps compile."""
    return (
        "import gc, sys\n"
        "import numpy as np\n"
        "from numba.core import event\n"
        "from rookery.kernels import kernel\n"
        "compilations = event.RecordingListener()\n"
        "event.register('numba:compile', compilations)\n"
        f"{steps}\n"
        "ours = [e.data['dispatcher'] for _, e in compilations.buffer if e.is_start]\n"
        "print(sum(each.py_func.__module__ == '__main__' for each in ours))\n"
    )


def test_of_processes_that_need_a_kernel_one_compiles_it_and_the_others_load_it(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        count_compilations(
            "@kernel\ndef total(x):\n    s = 0.0\n    for y in x:\n        s += y\n"
            "    return s\n\n\n"
            "print('ready', flush=True)\nsys.stdin.readline()\n"
            "assert total(np.ones(3)) == 3.0"
        )
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, str(program)]
    running = [subprocess.Popen(command, **pipes) for _ in range(3)]
    for process in running:
        assert process.stdout.readline() == "ready\n"

    printed = [process.communicate("go\n", timeout=100)[0] for process in running]

    assert sorted(printed) == ["0\n", "0\n", "1\n"]


def test_after_a_failed_compilation_another_process_can_compile(tmp_path):
    """The process that failed is still running."""
    program = tmp_path / "program.py"
    program.write_text(
        "import subprocess, sys\nimport numba\nfrom rookery.kernels import kernel\n\n\n"
        "def double(x):\n    return x * 2\n\n\n"
        "double.__module__ = 'rookery.loops'\ndouble = kernel(double)\n"
        "if len(sys.argv) == 1:\n"
        "    try:\n        double('text')\n"
        "        double(None)\n"
        "    except numba.TypingError:\n        pass\n"
        "    command = [sys.executable, __file__, 'other']\n"
        "    subprocess.run(command, check=True, timeout=50)\n"
        "else:\n    print(double(2.0))\n"
    )

    result = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=100
    )

    assert result.stdout == "4.0\n", result.stderr


def test_garbage_is_not_collected_while_compiling_but_afterwards(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import gc, numba\nfrom numba.core import event\n"
        "from rookery.kernels import kernel\n"
        "states = []\n\n\n"
        "class Listener(event.Listener):\n"
        "    def on_start(self, event):\n        states.append(gc.isenabled())\n"
        "    def on_end(self, event):\n        pass\n\n\n"
        "event.register('numba:llvm_lock', Listener())\n\n\n"
        "def double(x):\n    return x * 2\n\n\n"
        "double.__module__ = 'rookery.loops'\ndouble = kernel(double)\n"
        "double(2.0)\n"
        "before = gc.isenabled()\n"
        "try:\n    double(None)\n"
        "except numba.TypingError:\n    print(before, gc.isenabled(), False in states)\n"
    )

    result = subprocess.run([sys.executable, str(program)], capture_output=True, text=True)

    assert result.stdout == "True True True\n", result.stderr
