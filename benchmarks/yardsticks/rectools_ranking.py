"""RecTools' SASRec with its softmax: the ten best items of each user, seen ones left out.

Its loss is the one of RecTools, computed for the places that have a target as rows of one matrix:
the same values in a fraction of the time, so that it can be trained until validation stops rising.
Where `n_users` are asked for, it is its own loss, an epoch on so many users, for its speed.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from pytorch_lightning import (  # type: ignore[import-not-found]
    Callback,
    Trainer,
    seed_everything,
)
from rectools.dataset import Dataset
from rectools.models import SASRecModel
from rectools.models.nn.transformers.lightning import TransformerLightningModule
from torch.nn import functional as F

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
torch.set_num_threads(1)
given = np.load(sys.argv[1])
asked = json.loads(str(given["asked"]))
LENGTH, N_BEST, N_ROWS = asked["length"], 10, 512


class RowByRow(TransformerLightningModule):  # type: ignore[misc]
    """Its softmax over all items, with a row for each place that has a target."""

    def training_step(
        self,
        batch: dict[str, torch.Tensor],
        batch_idx: int,  # noqa: ARG002 - Lightning gives it
    ) -> torch.Tensor:
        """Return the mean loss of a batch."""
        table = self.torch_model.item_model.get_all_embeddings()
        states = self.torch_model.encode_sessions(batch, table)
        real = batch["y"] != 0
        return F.cross_entropy(states[real] @ table.T, batch["y"][real])


def best_items(net: Any, known: np.ndarray, user: np.ndarray, item: np.ndarray) -> np.ndarray:
    """Return the best items of all users after some rows, in the order of time, `[n_users, 10]`."""
    n_users, number = int(user.max()) + 1, np.full(int(item.max()) + 1, -1)
    number[known] = np.arange(1, len(known) + 1)  # 0 is padding; others are not known to it
    order = np.argsort(user, kind="stable")
    user, code = user[order], number[item[order]]
    user, code = user[code > 0], code[code > 0]
    ends = np.searchsorted(user, np.arange(n_users), side="right")
    back = ends[user] - np.arange(len(user))  # 1 for a user's last row
    sessions = np.zeros((n_users, LENGTH), dtype=np.int64)
    recent = back <= LENGTH
    sessions[user[recent], LENGTH - back[recent]] = code[recent]
    found = np.empty((n_users, N_BEST), dtype=np.int64)
    net.eval()
    with torch.no_grad():
        table = net.item_model.get_all_embeddings()
        for begin in range(0, n_users, N_ROWS):
            part = torch.from_numpy(sessions[begin : begin + N_ROWS])
            scores = net.encode_sessions({"x": part}, table)[:, -1] @ table.T
            mine = slice(*np.searchsorted(user, [begin, begin + N_ROWS]))
            scores[user[mine] - begin, code[mine]] = -torch.inf
            scores[:, 0] = -torch.inf
            found[begin : begin + N_ROWS] = known[scores.topk(N_BEST).indices.numpy() - 1]
    net.train()
    return found


def ndcg(best: np.ndarray, item: np.ndarray) -> float:
    return float(((best == item[:, None]) / np.log2(np.arange(2, N_BEST + 2))).sum(1).mean())


class Judge(Callback):  # type: ignore[misc]
    """Judges every epoch on the validation items, and keeps the best one's items for the test.

    What it finds is the class's: RecTools trains with a copy.
    """

    values: ClassVar[list[float]] = []
    ends: ClassVar[list[float]] = [time.process_time()]
    best: ClassVar[np.ndarray] = np.empty((0, N_BEST), dtype=np.int64)

    def on_train_epoch_end(self, trainer: Trainer, module: RowByRow) -> None:
        """Rank the validation items, and stop where they have not been better for long."""
        self.ends.append(time.process_time())
        numbers = module.data_preparator.item_id_map.external_ids
        known = numbers[module.data_preparator.n_item_extra_tokens :].astype(np.int64)
        user, item, net = given["user"], given["item"], module.torch_model
        value = ndcg(best_items(net, known, user, item), given["validation"])
        if value > max(self.values, default=-1):
            everyone = np.arange(len(given["validation"]))
            user, item = np.append(user, everyone), np.append(item, given["validation"])
            Judge.best = best_items(net, known, user, item)
        self.values.append(value)
        print(len(self.values) - 1, round(value, 4), file=sys.stderr, flush=True)
        trainer.should_stop = len(self.values) - int(np.argmax(self.values)) > asked["patience"]


def model(**options: Any) -> SASRecModel:
    return SASRecModel(
        n_factors=asked["dim"],
        n_blocks=asked["blocks"],
        n_heads=asked["heads"],
        session_max_len=LENGTH,
        dropout_rate=asked["dropout"],
        loss="softmax",
        lr=asked["rate"],
        batch_size=asked["sessions"],
        verbose=0,
        **options,
    )


def log_of(user: np.ndarray, item: np.ndarray) -> Dataset:
    frame = pd.DataFrame({"user_id": user, "item_id": item, "weight": 1})
    frame["datetime"] = pd.to_datetime(np.arange(len(frame)), unit="s")  # rows are in order
    return Dataset.construct(frame)


def speed() -> dict[str, float]:
    """Return positions a second with its own loss, of some users."""
    some = given["user"] < asked["n_users"]
    user, log = given["user"][some], log_of(given["user"][some], given["item"][some])
    taken = []
    for epochs in (1, 1, 2):  # the first one warms up
        begin = time.process_time()
        model(epochs=epochs).fit(log)
        taken.append(time.process_time() - begin)
    positions = int(np.minimum(np.bincount(user) - 1, LENGTH).sum())
    return {"seconds": taken[2] - taken[1], "positions": positions}


def train() -> dict[str, Any]:
    log = log_of(given["user"], given["item"])
    judge = Judge()
    shared = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}

    def trainer() -> Trainer:
        return Trainer(
            max_epochs=asked["epochs"], callbacks=[judge], enable_model_summary=False, devices=1,
            **shared,
        )  # fmt: skip

    seed_everything(asked["seed"])
    fitted = model(lightning_module_type=RowByRow, get_trainer_func=trainer)
    fitted.fit(log)
    np.savez(asked["out"], best=judge.best)
    return {
        "validation": judge.values,
        "parameters": sum(each.numel() for each in fitted.torch_model.parameters()),
        "seconds": judge.ends[-1] - judge.ends[0],
    }


print(json.dumps(speed() if asked.get("n_users") else train()))
