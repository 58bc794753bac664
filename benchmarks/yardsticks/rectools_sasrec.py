"""RecTools' SASRec: positions a second.

It trains on the last 50 positions of each user, so an epoch of it has fewer of them.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings

import numpy as np
import pandas as pd
from rectools.dataset import Dataset
from rectools.models import SASRecModel

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
given = np.load(sys.argv[1])
frame = pd.DataFrame(
    {
        "user_id": given["user"],
        "item_id": given["item"],
        "weight": 1,
        "datetime": pd.to_datetime(given["time"], unit="us"),
    }
)
log = Dataset.construct(frame)


def train(epochs: int) -> float:
    model = SASRecModel(
        n_factors=32,
        n_blocks=2,
        n_heads=1,
        session_max_len=50,
        loss="BCE",
        n_negatives=4,
        epochs=epochs,
        batch_size=128,
        verbose=0,
    )
    begin = time.perf_counter()
    model.fit(log)
    return time.perf_counter() - begin


train(1)
few, many = 2, 6
short, long = train(few), train(many)
seconds = (long - short) / (many - few)
# A row is a target unless it is its user's first or lies before the last 51.
positions = int(np.minimum(frame.groupby("user_id").size() - 1, 50).sum())
print(json.dumps({"seconds": seconds, "positions": positions, "rate": positions / seconds}))
