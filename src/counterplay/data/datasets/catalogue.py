"""The public datasets that can be read by name."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import TYPE_CHECKING

from counterplay.data.datasets.described import Dataset, Remote
from counterplay.data.datasets.media import read_goodbooks, read_goodreads, read_lastfm
from counterplay.data.datasets.movielens import read_ml_1m, read_ml_100k, read_movietweetings
from counterplay.data.datasets.randomized import read_coat, read_open_bandit
from counterplay.data.datasets.slates import read_finn, read_mind
from counterplay.data.datasets.tables import (
    read_amazon,
    read_kuairand,
    read_kuairec,
    read_movielens,
    read_yahoo_r3,
)
from counterplay.errors import ConfigError, DataError

if TYPE_CHECKING:
    from counterplay.data.canonical import Order
    from counterplay.data.formats import Progress
    from counterplay.data.interactions import Interactions
    from counterplay.data.splits import Split


_SHA256 = {
    "ml-1m.zip": "a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
    "ml-100k.zip": "50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229",
    "hetrec2011-lastfm-2k.zip": "6738f48195667ff03caaab4d32ca9a3133d8cc026b7c3cdaf6ce1010e913c59c",
    "ratings.dat": "c0dd868c2632d10002ebc928ddc5345f33adeaa59eca52c2941c26a2c5e36fd6",
    "movies.dat": "e63fb84bc734e3c574f135634a40d3cbafab22b8f94f5fc0b80f80d1d2076efc",
    "coat.zip": "6073d0b515ed1f6e830e4fead66dc76ad7991a7553eaa58e228b234a9d19daed",
    "open_bandit_dataset.zip": "e8ec18196582a5937381a1776382ca940689b90a18d2dcd1fb635be6df614d78",
}


def _at(folder: str, *names: str) -> tuple[Remote, ...]:
    return tuple(Remote(f"https://{folder}/{name}", _SHA256.get(name, "")) for name in names)


_GROUPLENS = "research use; no redistribution, no commercial use without permission"
_HARPER = (
    "F. M. Harper, J. A. Konstan: The MovieLens Datasets: History and Context. ACM TiiS 5(4), 2015"
)
_ALL: tuple[Dataset, ...] = (
    Dataset(
        "ml-1m",
        "MovieLens-1M",
        "1,000,209 ratings",
        _GROUPLENS,
        _HARPER,
        _at("files.grouplens.org/datasets/movielens", "ml-1m.zip"),
        "movies.dat",
        read_ml_1m,
        first_line=r"\d{1,4}::",
        columns="user, item, rating, time; features of users and items",
    ),
    Dataset(
        "ml-100k",
        "MovieLens-100K",
        "100,000 ratings",
        _GROUPLENS,
        _HARPER,
        _at("files.grouplens.org/datasets/movielens", "ml-100k.zip"),
        "u.data",
        read_ml_100k,
        columns="user, item, rating, time; features of users and items",
    ),
    Dataset(
        "lastfm",
        "hetrec2011 LastFM",
        "186,479 tag events",
        "non-commercial use",
        "I. Cantador, P. Brusilovsky, T. Kuflik: HetRec 2011. RecSys 2011",
        _at("files.grouplens.org/datasets/hetrec2011", "hetrec2011-lastfm-2k.zip"),
        "user_taggedartists-timestamps.dat",
        read_lastfm,
        columns="user, item, time (every tag is a row)",
    ),
    Dataset(
        "goodreads",
        "Goodreads reviews, history and biography (UCSD book graph)",
        "2,066,193 reviews",
        "academic use; no redistribution, no commercial use",
        "M. Wan, J. McAuley: Item Recommendation on Monotonic Behavior Chains. RecSys 2018",
        _at(
            "mcauleylab.ucsd.edu/public_datasets/gdrive/goodreads/byGenre",
            "goodreads_reviews_history_biography.json.gz",
        ),
        "goodreads_reviews_*.json*",
        read_goodreads,
        columns="user, item, rating, time",
    ),
    Dataset(
        "goodbooks",
        "goodbooks-10k",
        "5,976,479 ratings",
        "CC BY-SA 4.0",
        "Z. Zając: Goodbooks-10k: a new dataset for book recommendations. FastML, 2017",
        _at("github.com/zygmuntz/goodbooks-10k/releases/download/v1.0", "goodbooks-10k.zip"),
        "ratings*.csv",
        read_goodbooks,
        first_line="user_id,book_id,rating",
        columns="user, item, rating; features of items",
    ),
    Dataset(
        "movietweetings",
        "MovieTweetings, snapshot 100K",
        "100,000 ratings",
        "MIT",
        "S. Dooms, T. De Pessemier, L. Martens: MovieTweetings. CrowdRec at RecSys 2013",
        _at(
            "raw.githubusercontent.com/sidooms/MovieTweetings/"
            "4d8280a3f1ea83e3e23f13d1710d19f43564274f/snapshots/100K",
            "ratings.dat",
            "movies.dat",
        ),
        "movies.dat",
        read_movietweetings,
        first_line=r"\d{7,}::",
        columns="user, item, rating, time; features of items",
    ),
    Dataset(
        "coat",
        "Coat Shopping",
        "6,960 self-selected and 4,640 random ratings",
        "research use",
        "T. Schnabel et al.: Recommendations as Treatments. ICML 2016",
        _at("www.cs.cornell.edu/~schnabts/mnar", "coat.zip"),
        "train.ascii",
        read_coat,
        columns="user, item, rating; features of users and items; its test rows are random",
    ),
    Dataset(
        "open-bandit",
        "Open Bandit (one policy, one campaign)",
        "26 million impressions in six logs; 10,000 each in the small version",
        "CC BY 4.0",
        "Y. Saito et al.: Open Bandit Dataset and Pipeline. NeurIPS Datasets and Benchmarks 2021",
        _at("research.zozo.com/data_release", "open_bandit_dataset.zip"),
        "item_context.csv",
        read_open_bandit,
        subfolder="random/all",
        columns="user, item, clicked, time, position, propensity; features of users and items",
    ),
    Dataset(
        "mind",
        "MIND, Microsoft news (one part, such as MINDsmall_train)",
        "15 million lists of 1 million users; 230,117 lists of 94,057 users in the small version",
        "Microsoft Research licence; non-commercial use",
        "F. Wu et al.: MIND: A Large-scale Dataset for News Recommendation. ACL 2020",
        _at(
            "mind201910small.blob.core.windows.net/release",
            "MINDsmall_train.zip",
        ),
        "behaviors.tsv",
        read_mind,
        columns="user, item, clicked, time; features of items",
    ),
    Dataset(
        "finn-slates",
        "FINN.no slates",
        "37.4 million lists of 2.3 million users",
        "use with attribution",
        "S. Eide, D. S. Leslie, A. Frigessi: Dynamic Slate Recommendation with Gated Recurrent "
        "Units and Thompson Sampling. arXiv:2104.15046, 2021",
        _at(
            "media.githubusercontent.com/media/finn-no/recsys_slates_dataset/"
            "df3cfb68c9d6dd62e09c93253cea8667e2ec4ef8/data",
            "data.npz",
            "itemattr.npz",
        ),
        "data.npz",
        read_finn,
        columns="user, item, clicked, time, position; features of items",
    ),
)
_GAO = "C. Gao et al.: {}. CIKM 2022"
_ALL += tuple(
    Dataset(
        name,
        title,
        rows,
        _GROUPLENS,
        _HARPER,
        _at("files.grouplens.org/datasets/movielens", f"{name}.zip"),
        "ratings.csv",
        read_movielens,
        first_line="userId,movieId,rating,timestamp",
        columns="user, item, rating, time; features of items",
    )
    for name, title, rows in (
        ("ml-latest-small", "MovieLens latest, small", "100,836 ratings"),
        ("ml-20m", "MovieLens-20M", "20,000,263 ratings"),
        ("ml-32m", "MovieLens-32M", "32,000,204 ratings"),
    )
)
_ALL += (
    Dataset(
        "yahoo-r3",
        "Yahoo! R3, music ratings",
        "311,704 self-selected and 54,000 random ratings",
        "Yahoo! Webscope agreement; non-commercial research",
        "B. Marlin, R. Zemel: Collaborative Prediction and Ranking with Non-Random Missing Data. "
        "RecSys 2009",
        (),
        "ydata-ymusic-rating-study-v1_0-train.txt",
        read_yahoo_r3,
        columns="user, item, rating; its test rows are random",
        page="https://webscope.sandbox.yahoo.com",
    ),
    Dataset(
        "kuairec",
        "KuaiRec, short videos",
        "12,530,806 views, and a complete matrix of 4,676,570",
        "CC BY-SA 4.0",
        _GAO.format("KuaiRec: A Fully-Observed Dataset and Insights for Recommender Systems"),
        (),
        "big_matrix.csv",
        read_kuairec,
        subfolder="data",
        columns="user, item, rating (share watched); its test rows are all pairs of some users",
        page="https://kuairec.com",
    ),
    Dataset(
        "kuairand",
        "KuaiRand, short videos (Pure, 1K or 27K)",
        "1.4 million standard and 1.2 million random impressions in the Pure version",
        "CC BY-SA 4.0",
        _GAO.format("KuaiRand: An Unbiased Sequential Recommendation Dataset"),
        (),
        "log_random_4_22_to_5_08_*.csv",
        read_kuairand,
        subfolder="data",
        columns="user, item, clicked, time, random",
        page="https://kuairand.com",
    ),
    Dataset(
        "amazon-2023",
        "Amazon reviews 2023 (one category)",
        "571.5 million reviews in 33 categories",
        "research use",
        "Y. Hou et al.: Bridging Language and Items for Retrieval and Recommendation. "
        "arXiv:2403.03952, 2024",
        (),
        "*.csv",
        read_amazon,
        first_line="user_id,parent_asin,rating,timestamp",
        columns="user, item, rating, time",
        page="https://amazon-reviews-2023.github.io",
    ),
)
DATASETS: dict[str, Dataset] = {dataset.name: dataset for dataset in _ALL}


def dataset(name: str) -> Dataset:
    """Return the dataset called `name`."""
    if name not in DATASETS:
        nearest = difflib.get_close_matches(name, DATASETS, n=1)
        hint = f"did you mean '{nearest[0]}'" if nearest else f"take one of {', '.join(DATASETS)}"
        raise ConfigError(f"a dataset must be one of those known here; found '{name}'; {hint}")
    return DATASETS[name]


def dataset_at(path: Path) -> Dataset | None:
    """Tell which dataset a folder or a file holds, by what its files are called."""
    if path.is_dir():
        alike = [each for each in _ALL if _home(each, path) is not None]
        named = (each for each in alike if each.name == path.resolve().name)
        return next(named, alike[0] if alike else None)
    goodreads = DATASETS["goodreads"]
    return goodreads if path.match(goodreads.marker) else None


def _home(dataset: Dataset, folder: Path) -> Path | None:
    """Return the folder of a dataset's files: the one named, or the one in it that has them."""
    below = dataset.place(folder)
    if _looks_like(dataset, folder):
        return folder
    alone = below.is_dir() and {each.parent for each in folder.rglob(dataset.marker)} == {below}
    return below if alone and _looks_like(dataset, below) else None


def _looks_like(dataset: Dataset, folder: Path) -> bool:
    found = next(folder.glob(dataset.marker), None)
    if found is None or not dataset.first_line:
        return found is not None
    with found.open(encoding="latin-1") as file:
        return re.match(dataset.first_line, file.readline(1000)) is not None


def read_dataset(
    name: str,
    path: str | Path,
    *,
    order: Order = "canonical",
    progress: Progress | None = None,
) -> Interactions | Split:
    """Read a public dataset from its folder; one that brings its own split comes as a Split.

    Args:
        name: One of `DATASETS`.
        path: The folder that its files are in (for goodreads, the file itself will do).
        order: How rows of one user at one time, or without times, are ordered: by what they say
            (canonical), or as they stand in the file.
        progress: Called with the rows read so far and, where known, their total.
    """
    chosen, place = dataset(name), Path(path)
    if not place.exists():
        raise DataError(
            f"{chosen.title} must be there to be read; found nothing at '{place}'; check the path, "
            f"or fetch it with counterplay download {name}"
        )
    return chosen.read(_home(chosen, place) or place, order=order, progress=progress)
