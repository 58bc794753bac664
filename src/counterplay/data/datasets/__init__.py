"""Public datasets, read from their official layouts."""

from counterplay.data.datasets.catalogue import DATASETS, dataset, dataset_at, read_dataset
from counterplay.data.datasets.described import Dataset
from counterplay.data.datasets.download import download

__all__ = ["DATASETS", "Dataset", "dataset", "dataset_at", "download", "read_dataset"]
