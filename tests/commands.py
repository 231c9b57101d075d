"""The real command in a process of its own, and the files that its tests share."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from unshift.datasets import make_mixture

LABEL = "kind"
NAMES = np.array(["benign", "malign"])
# Small batches and sections, each of which takes its time: to be caught in the midst of the work.
SLOW = """
import sys, time
from unshift import outputs, stream
stream.BATCH_ROWS, outputs.SECTION_BYTES = 1, 1
write = outputs.Output.write
def slowly(self, batch):
    time.sleep(0.3)
    write(self, batch)
outputs.Output.write = slowly
"""
MAIN = "import sys; from unshift.cli import main; sys.exit(main())"


def command(*words: object, slow: bool = False) -> list[str]:
    return [sys.executable, "-c", (SLOW if slow else "") + MAIN, *map(str, words)]


def environment() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def run(*words: object, **options: object) -> subprocess.CompletedProcess[str]:
    settings = {"capture_output": True, "text": True, "env": environment()} | options
    return subprocess.run(command(*words), check=False, **settings)  # type: ignore[call-overload,no-any-return]


def start(*words: object) -> subprocess.Popen[str]:
    """A slow run of the command."""
    return subprocess.Popen(
        command(*words, slow=True),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )


def signal_once(process: subprocess.Popen[str], path: Path, sent: signal.Signals) -> str:
    """Send the signal once there is such a path; what the process said on stderr."""
    for _ in range(1200):
        if path.exists():
            break
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(sent)
    return process.communicate(timeout=60)[1]


def frames() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Source with labels, and target with labels in its first 12 rows and an identifier."""
    mixture = make_mixture(4)
    source = pd.DataFrame(mixture.X_source, columns=[f"a{i}" for i in range(5)])
    source[LABEL] = NAMES[mixture.y_source]
    target = pd.DataFrame(mixture.X_target, columns=[f"b{i}" for i in range(5)])
    labels = NAMES[mixture.y_target].astype(object)
    labels[12:] = None
    target.insert(2, LABEL, labels)
    target.insert(0, "sample", [f"{i:04d}" for i in range(300)])
    return source, target


def written(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The same, in source.csv and target.csv of a folder."""
    source, target = frames()
    source.to_csv(folder / "source.csv", index=False)
    target.to_csv(folder / "target.csv", index=False)
    return source, target
