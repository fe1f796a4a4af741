"""Speed, measured as ratios within one run: `python -m benchmarks --data-dir DATA --json FILE`.

Nothing here is asserted by a test, because machines differ and are shared; docs/performance.md keeps the
history.
"""

import feature_store as feature_store  # answers Ctrl-C while the modules of a command are loaded
