"""Open Bandit Pipeline's bootstrap of a mean: seconds for the resamples asked for."""

from __future__ import annotations

import json
import sys
import time

import numpy as np
from obp.utils import estimate_confidence_interval_by_bootstrap

given = np.load(sys.argv[1])
begin = time.perf_counter()
estimate_confidence_interval_by_bootstrap(
    given["rows"], n_bootstrap_samples=int(given["n_resamples"]), random_state=0
)
print(json.dumps({"seconds": time.perf_counter() - begin}))
