from __future__ import annotations

import json

from counterplay.data.datasets import DATASETS

from .conftest import Run


def test_every_dataset_is_listed_with_its_terms(run: Run) -> None:
    outcome = run("datasets")
    assert outcome.code == 0
    for dataset in DATASETS.values():
        for text in (dataset.name, dataset.title, dataset.licence, dataset.citation):
            assert text in outcome.out


def test_the_list_as_json(run: Run) -> None:
    listed = json.loads(run("datasets", "--json").out)
    assert [each["name"] for each in listed] == list(DATASETS)
    assert all(each["files"] for each in listed)
