"""LensKit's FlexMFImplicit: seconds an epoch, and its scores of given candidates."""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from lenskit.data import ItemList, from_interactions_df
from lenskit.flexmf import FlexMFImplicitScorer
from lenskit.training import TrainingOptions

warnings.simplefilter("ignore")
given = np.load(sys.argv[1])
log = from_interactions_df(pd.DataFrame({"user_id": given["user"], "item_id": given["item"]}))


def train(epochs: int) -> tuple[FlexMFImplicitScorer, float]:
    model = FlexMFImplicitScorer(
        embedding_size=32,
        epochs=epochs,
        batch_size=int(given["batch_size"]),
        loss="logistic",
        negative_count=4,
    )
    begin = time.perf_counter()
    model.train(log, TrainingOptions(rng=1))
    return model, time.perf_counter() - begin


train(1)
few, many = 2, int(given["epochs"])
_, short = train(few)
model, long = train(many)
answer: dict[str, float | str] = {"seconds": (long - short) / (many - few), "total": long}
if "candidates" in given:
    scores = [
        model(query=int(user), items=ItemList(item_ids=items)).scores()
        for user, items in zip(given["target_user"], given["candidates"], strict=True)
    ]
    file = Path(sys.argv[1]).with_name("lenskit-scores.npy")
    np.save(file, np.array(scores, dtype=np.float32))
    answer["scores"] = str(file)
print(json.dumps(answer))
