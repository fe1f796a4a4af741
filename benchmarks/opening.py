"""Open features in a process of its own, and print what it took: python -m benchmarks.opening DATA CACHE."""

import json
import os
import resource
import sys
import time
from pathlib import Path

from feature_store.store import FeatureRequest, open_features


def _resident() -> float:
    """MB of memory that this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main(data_dir: str, cache_dir: str) -> None:
    """Build or open, and say how long it took, what memory it added, and the most the process ever held."""
    request = FeatureRequest(
        dataset="beer",
        aspect="palate",
        data_dir=Path(data_dir),
        cache_dir=Path(cache_dir),
        embedding="random",
    )
    before, started = _resident(), time.perf_counter()
    features = open_features(request)
    found = {
        "seconds": time.perf_counter() - started,
        "added_mb": _resident() - before,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "num_texts": features.table("train").num_rows,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
