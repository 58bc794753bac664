"""Parts of one computation, as many at a time as there are threads to compute with."""

from __future__ import annotations

import os
import sys
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Part = TypeVar("Part")
Found = TypeVar("Found")


def in_threads(
    work: Callable[[Part], Found], parts: Iterable[Part], most: int
) -> Iterator[tuple[Part, Found]]:
    """Yield each part with what `work` makes of it, in order, at most `most` at a time.

    Each part is computed by one thread, so results do not depend on how many there are; threads
    that share every small step would mostly wait for each other.
    """
    torch = sys.modules.get("torch")  # where nobody has loaded it, there is nothing to hold back
    there = os.cpu_count() or 1 if torch is None else torch.get_num_threads()
    workers = max(1, min(there, most))
    # What a thread sets is its own, and that of threads to come: the latter is undone at the end.
    alone = None if torch is None else lambda: torch.set_num_threads(1)
    pool = ThreadPoolExecutor(workers, initializer=alone)
    under_way: deque[tuple[Part, Callable[[], Found]]] = deque()
    try:
        for part in parts:
            under_way.append((part, pool.submit(work, part).result))
            if len(under_way) > workers:
                first, result = under_way.popleft()
                yield first, result()
        for first, result in under_way:
            yield first, result()
    finally:
        pool.shutdown(cancel_futures=True)
        if torch is not None:
            torch.set_num_threads(there)
