"""Open features in a process of its own, and print what it took: python -m benchmarks.opening DATA CACHE."""

import json
import re
import sys
import time
from pathlib import Path

from feature_store.store import FeatureRequest, open_features


def _resident(most: bool = False) -> float:
    """MB of memory that this process holds, or has held at `most` since its program was started."""
    # not getrusage: its maximum is taken over from the process that started this one
    status, name = Path("/proc/self/status").read_text(), "VmHWM" if most else "VmRSS"
    found = re.search(rf"^{name}:\s+(\d+) kB", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024


def main(data_dir: str, cache_dir: str) -> None:
    """Build or open, and say how long it took, what memory it added, and the most the process ever held."""
    request = FeatureRequest(
        dataset="beer",
        aspect="palate",
        data_dir=Path(data_dir),
        cache_dir=Path(cache_dir),
        embedding="random",
    )
    before, started, cpu_s = _resident(), time.perf_counter(), time.process_time()
    features = open_features(request)
    found = {
        "seconds": time.perf_counter() - started,
        "cpu_s": time.process_time() - cpu_s,
        "added_mb": _resident() - before,
        "peak_mb": _resident(most=True),
        "num_texts": features.provenance["counts"]["train_rows"],
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
