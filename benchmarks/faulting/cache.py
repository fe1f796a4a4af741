"""What is built once and kept: two builders, killed builders, full disks, damaged files."""

import hashlib
import os
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.faulting.command import SMALL, Command, Unexpected
from benchmarks.faulting.disk import NoDisk, small_disk
from benchmarks.faulting.frame import Bench, Counts

_BEER = ("-m", "feature_store", "build", "--dataset", "beer", "--aspect", "palate", "--sample")
_ROOM = 64 * 2**20
"""Bytes, more than everything of the sample corpora takes."""
_HALF_WRITTEN = ".staging-"
"""In the names of what is not finished."""
_STEP_S = 0.002


@dataclass(frozen=True, slots=True)
class Part:
    """Something that is built.

    Args:
        name: of it.
        arguments: of the interpreter, but for the folders.
        starts: what a command says when it begins to build it.
        ends: and when it has.
        own: in the paths of files of a kind that no other part has; empty: all are.
    """

    name: str
    arguments: tuple[str, ...]
    starts: str
    ends: str
    own: str

    def command(self, cache: Path, log: Path, temporary: Path) -> Command:
        """Start to build it, where it is not there."""
        output = ["--output", str(log.with_suffix(".model"))] if "pipeline.train" in self.arguments else []
        return Command([*self.arguments, *output, "--cache-dir", str(cache)], log, temporary)


PARTS = (
    Part("features", (*_BEER, "--embedding", "random"), "building features", "built features", ""),
    Part("vectors", (*_BEER, "--embedding", "word2vec"), "building features", "built features", ".npy"),
    Part(
        "segments",
        ("-m", "feature_store", "build", "--dataset", "cail-small", "--task", "charges", "--sample"),
        "building features",
        "built features",
        "segments/",
    ),
    Part(
        "scores",
        ("-m", "pipeline.train", *SMALL, "--epochs", "1"),
        "language model: epoch 1",
        "epoch 1/1",
        "/derived/",
    ),
)


@dataclass(slots=True)
class Builds:
    """The builds of one fault."""

    bench: Bench
    counts: Counts
    started: int = 0
    _wholes: dict[str, tuple[dict[str, str], float]] = field(default_factory=dict)

    def start(self, part: Part, cache: Path) -> Command:
        """Start to build a part in a cache."""
        self.started += 1
        log = self.bench.folder / f"{self.started:03d}-{part.name}.log"
        return part.command(cache, log, self.bench.folder / "tmp")

    def whole(self, part: Part) -> tuple[dict[str, str], float]:
        """Digests of everything that a build makes which nothing befalls, and how long its making takes."""
        if part.name not in self._wholes:
            self._wholes[part.name] = self._built(part)
        return self._wholes[part.name]

    def _built(self, part: Part) -> tuple[dict[str, str], float]:
        cache = self.cache_of(part)
        command = self.start(part, cache)
        started = _await(command, part.starts)
        ended = _await(command, part.ends)
        code = command.finish()
        if code or started is None or ended is None:
            raise Unexpected(f"{part.name} cannot be built: exit code {code}\n{command.tail()}")
        return digests(cache), ended - started

    def cache_of(self, part: Part) -> Path:
        """Where `whole` builds it."""
        return self.bench.folder / f"whole-{part.name}"

    def check(self, part: Part, command: Command, cache: Path, whole: dict[str, str]) -> None:
        """Wait for a build; count what is not as it should be."""
        code = command.finish()
        self.counts.add("trials_lost", int(code != 0), f"{part.name}: exit code {code}\n{command.tail()}")
        found = digests(cache)
        missing = sorted(whole.keys() - found.keys())
        self.counts.add("trials_lost", len(missing), f"{part.name}: not there: {missing}")
        wrong = sorted(name for name in whole.keys() & found.keys() if whole[name] != found[name])
        self.counts.add("metrics_lost", len(wrong), f"{part.name}: other content: {wrong}")
        self.counts.add("duplicates", len(found.keys() - whole.keys()), f"{part.name}: {sorted(found)}")
        self.left_over(part, command, cache)

    def left_over(self, part: Part, command: Command, cache: Path) -> None:
        """Count half-written files and processes."""
        half = [str(path.relative_to(cache)) for path in cache.rglob("*") if _HALF_WRITTEN in path.name]
        self.counts.add("zombies", len(half), f"{part.name}: half written: {half}")
        left = command.survivors(10.0)
        self.counts.add("zombies", len(left), f"{part.name}: processes left over: {left}")


def digests(cache: Path) -> dict[str, str]:
    """SHA-256 of each file that holds data; manifests tell the time, and half-written files are not there."""
    return {
        str(path.relative_to(cache)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(cache.rglob("*"))
        if path.suffix in (".arrow", ".npy", ".txt", ".gz", ".json")
        and path.name not in ("manifest.json", "digests.json")
        and _HALF_WRITTEN not in str(path)
    }


def _await(command: Command, text: str) -> float | None:
    """Wait until a command says something, to the millisecond; None where it ends before."""
    while text not in command.said():
        if command.process.poll() is not None and text not in command.said():
            return None
        time.sleep(_STEP_S)
    return command.seconds()


def together(bench: Bench) -> Counts:
    """Two processes want the same: one builds, the other waits."""
    counts = Counts()
    builds = Builds(bench, counts)
    for number, part in _in_turn(bench):
        whole, _ = builds.whole(part)
        cache = bench.folder / f"together-{number}"
        pair = [builds.start(part, cache) for _ in range(2)]
        counts.injected += 1
        for command in pair:
            builds.check(part, command, cache, whole)
        built = sum(command.said().count(part.starts) for command in pair)
        counts.add("duplicates", built - 1, f"{part.name}: built {built} times")
    return counts


def killed(bench: Bench) -> Counts:
    """A builder is killed at a random moment of its work, in turn with its processes and alone."""
    counts = Counts()
    builds = Builds(bench, counts)
    for number, part in _in_turn(bench):
        whole, took = builds.whole(part)
        cache = bench.folder / f"killed-{number}"
        builder = builds.start(part, cache)
        if _await(builder, part.starts) is None:
            raise Unexpected(f"{part.name} was not built:\n{builder.tail()}")
        time.sleep(bench.random.uniform(0, took))
        builder.descendants()
        if number // len(PARTS) % 2:
            os.kill(builder.process.pid, signal.SIGKILL)
            builder.process.wait()
        else:
            builder.kill()
        counts.injected += 1
        builds.check(part, builds.start(part, cache), cache, whole)
        left = builder.survivors(10.0)
        counts.add("zombies", len(left), f"{part.name}: processes of the killed builder: {left}")
    return counts


def full(bench: Bench) -> Counts:
    """The disk fills while something is built; then there is room again."""
    counts = Counts()
    builds = Builds(bench, counts)
    try:
        for number, part in _in_turn(bench):
            whole, _ = builds.whole(part)
            size = sum((builds.cache_of(part) / name).stat().st_size for name in whole)
            room = int(size * bench.random.uniform(0.02, 0.9))
            with small_disk(bench.folder / f"full-{number}", max(room, 4096)) as disk:
                cache = disk.folder / "cache"
                command = builds.start(part, cache)
                code = command.finish()
                counts.injected += 1
                is_told = code == 2 and "error: " in command.said() and "No space left" in command.said()
                counts.add(
                    "trials_lost",
                    int(not is_told),
                    f"{part.name}: exit code {code} on a full disk\n{command.tail()}",
                )
                builds.left_over(part, command, cache)
                disk.resize(_ROOM)
                builds.check(part, builds.start(part, cache), cache, whole)
    except NoDisk as error:
        counts.impossible = str(error)
    return counts


def damaged(bench: Bench) -> Counts:
    """A file of the cache is cut short, or one of its bits is flipped: each kind of file in turn."""
    counts = Counts()
    builds = Builds(bench, counts)
    for part in PARTS:
        whole, _ = builds.whole(part)
        names = [name for name in _kept(builds.cache_of(part)) if part.own in name]
        for number, name in enumerate(names):
            for damage in (_flip, _cut):
                cache = bench.folder / f"damaged-{part.name}-{number}-{damage.__name__}"
                shutil.copytree(builds.cache_of(part), cache)
                damage(bench, cache / name)
                if "features/" not in name:  # nobody asks for what the features were built from
                    shutil.rmtree(cache / "features")
                counts.injected += 1
                before = len(counts.findings)
                builds.check(part, builds.start(part, cache), cache, whole)
                counts.findings[before:] = [
                    f"{damage.__name__} {name}: {w}" for w in counts.findings[before:]
                ]
                shutil.rmtree(cache)
    return counts


def _kept(cache: Path) -> Iterator[str]:
    """Every file that is kept, but for locks."""
    for path in sorted(cache.rglob("*")):
        if path.is_file() and "locks" not in path.parts and path.stat().st_size:
            yield str(path.relative_to(cache))


def _flip(bench: Bench, path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[bench.random.randrange(len(content))] ^= 1 << bench.random.randrange(8)
    _overwrite(path, bytes(content))


def _cut(bench: Bench, path: Path) -> None:
    content = path.read_bytes()
    _overwrite(path, content[: bench.random.randrange(len(content))])


def _overwrite(path: Path, content: bytes) -> None:
    """As a disk does that fails: the time of change stays."""
    times = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def _in_turn(bench: Bench) -> Iterator[tuple[int, Part]]:
    for number in range(bench.times):
        yield number, PARTS[number % len(PARTS)]
