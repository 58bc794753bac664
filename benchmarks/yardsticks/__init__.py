"""Other libraries, each in an environment of its own, measured on the same rows.

A yardstick is a script beside this file. It gets the path of an `.npz` with what it needs and
prints one JSON object; its environment, `.venv-NAME` at the project's root, is made when it is
first asked for.
"""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
# torch comes first and pinned: what needs it later finds it there.
REQUIREMENTS = {
    "lenskit": ["torch==2.13.0", "lenskit==2025.8.1"],
    "implicit": ["implicit==0.7.3"],
    "rectools": ["torch==2.13.0", "rectools[torch]==0.19.0"],
    "obp": [
        "torch==2.13.0",
        "scikit-learn",
        "seaborn",
        "tqdm",
        "--no-deps obp==0.4.1",
    ],  # else too old
}


def python_of(name: str) -> Path:
    """Return the interpreter of a yardstick's environment, made where it is absent."""
    folder = ROOT / f".venv-{name}"
    python, done = folder / "bin" / "python", folder / ".ready"
    wanted = "\n".join(REQUIREMENTS[name])
    if not done.exists() or done.read_text() != wanted:
        print(f"setting up {folder.name} …", file=sys.stderr, flush=True)
        venv.create(folder, with_pip=True, clear=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        for requirement in REQUIREMENTS[name]:
            subprocess.run([*install, *requirement.split()], check=True)
        done.write_text(wanted)
    return python


def measure(name: str, script: str, arrays: Mapping[str, NDArray[np.generic]], work: Path) -> Any:
    """Run a yardstick's script on the arrays and return what it printed."""
    given = work / f"{script}.npz"
    np.savez(given, allow_pickle=False, **arrays)
    command = [python_of(name), HERE / f"{script}.py", given]
    output = subprocess.run(command, capture_output=True, text=True)
    if output.returncode:
        raise RuntimeError(f"{script}: {output.stderr[-2000:]}")
    return json.loads(output.stdout.splitlines()[-1])
