"""Compile the `*.cpp` beside this file once into a cache of the user, and load them as one library.

They need a C++17 compiler and nothing else: no header of torch or Python, no ninja. It takes some
seconds; several processes may do it at once, because each writes a file of its own and renames it.
"""

import ctypes
import functools
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

SOURCES = tuple(sorted(Path(__file__).parent.glob("*.[ch]pp")))
"""The files that are compiled, and the headers that they include."""
FLAGS = (
    *("-std=c++17", "-O3", "-march=native", "-fPIC", "-shared", "-pthread"),
    # -ffast-math would lose NaN; these let loops be vectorised and keep it
    *("-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd"),
)
TIMEOUT = 300
"""Seconds after which a compiler is given up."""


def library() -> ctypes.CDLL | None:
    """The compiled kernels, or None where it cannot be compiled; `failure` then says why."""
    return _load()[0]


def failure() -> str | None:
    """Why there is no library, in one line; None where there is one."""
    return _load()[1]


def library_path() -> Path:
    """Where the compiled kernels lie: another source, compiler, flag or processor has another place."""
    command = compiler()
    key = repr(([source.read_bytes() for source in SOURCES], FLAGS, command, _version(command), _processor()))
    return cache_folder() / f"kernels-{hashlib.sha256(key.encode()).hexdigest()[:16]}.so"


def cache_folder() -> Path:
    """The folder of compiled kernels below XDG_CACHE_HOME or ~/.cache."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "infocal" / "kernels"


def compiler() -> tuple[str, ...] | None:
    """The command of the C++ compiler: that of the variable CXX, or the first that is on the PATH."""
    try:
        named = shlex.split(os.environ.get("CXX", ""))
    except ValueError:  # a quote without its other half: no such command
        named = [os.environ["CXX"]]
    for command in [named] if named else [["c++"], ["g++"], ["clang++"]]:
        if shutil.which(command[0]):
            return tuple(command)
    return None


@functools.cache
def _load() -> tuple[ctypes.CDLL | None, str | None]:
    """Compile if need be and load, once a process: the library, or the reason why there is none."""
    command = compiler()
    if command is None:
        return None, f"no C++ compiler (CXX=`{os.environ.get('CXX', '')}`, c++, g++, clang++)"
    try:
        path = library_path()
        if not _is_whole(path):
            compile_to(path, command)
        return ctypes.CDLL(str(path)), None
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        reason = " ".join(str(error).split())[:500]
        return None, f"`{shlex.join(command)}` made no usable library: {reason}"


def _is_whole(path: Path) -> bool:
    """Whether the library is there as it was compiled; a damaged one would kill the process that loads it."""
    try:
        return _digest_file(path).read_text() == _digest(path)
    except OSError:
        return False


def _digest_file(path: Path) -> Path:
    return path.with_suffix(".sha256")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def compile_to(path: Path, command: tuple[str, ...]) -> None:
    """Compile the kernels to `path`, which appears whole or not at all.

    Raises:
        RuntimeError: the compiler failed; with what it said.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="build-") as folder:
        built = Path(folder) / path.name
        sources = [str(source) for source in SOURCES if source.suffix == ".cpp"]
        done = subprocess.run(
            [*command, *FLAGS, "-o", str(built), *sources], capture_output=True, text=True, timeout=TIMEOUT
        )
        if done.returncode:
            raise RuntimeError(f"exit status {done.returncode}: {done.stderr.strip()[:400]}")
        digest = Path(folder) / _digest_file(path).name
        digest.write_text(_digest(built))
        built.replace(path)
        digest.replace(_digest_file(path))  # last: without it the library counts as missing


def _version(command: tuple[str, ...] | None) -> str:
    if command is None:
        return ""
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=TIMEOUT)
    return done.stdout


def _processor() -> str:
    """What -march=native depends on: a cache may be shared by machines (a home folder on the network)."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.platform() + platform.processor()
    kinds = ("flags", "Features", "model name", "CPU part")
    return "\n".join(sorted({line for line in lines if line.startswith(kinds)}))
