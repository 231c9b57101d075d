"""One file for a model: no pickle, a version, a checksum, the same bits back.

A line ``unshift <version> <sha256>``, then an uncompressed numpy archive of a JSON header and of
arrays. The checksum covers all that follows the line.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from typing import Any

import numpy as np
import numpy.typing as npt

VERSION = 1
HEADER = "header"

Arrays = dict[str, npt.NDArray[Any]]


def write(path: str | os.PathLike[str], header: dict[str, Any], arrays: Arrays) -> None:
    """Write header and arrays; an older file of that name is replaced only once all is written."""
    buffer = io.BytesIO()
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez(buffer, allow_pickle=False, **{HEADER: text}, **arrays)
    payload = buffer.getvalue()
    digest = hashlib.sha256(payload).hexdigest()
    name = os.fspath(path)
    partial = f"{name}.partial"
    with open(partial, "wb") as file:
        file.write(f"unshift {VERSION} {digest}\n".encode() + payload)
    os.replace(partial, name)


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a file that ``write`` made; anything else is refused."""
    with open(path, "rb") as file:
        first = file.readline(200)
        payload = file.read()
    words = first.split()
    if len(words) != 3 or words[0] != b"unshift" or not first.endswith(b"\n"):
        raise ValueError(f"{os.fspath(path)} is not a file that unshift saved: its first line is not ours.")
    if words[1] != str(VERSION).encode():
        raise ValueError(
            f"{os.fspath(path)} has format version {words[1].decode(errors='replace')}, and this unshift reads "
            f"version {VERSION}. Install the unshift that wrote it, or align and save again."
        )
    if hashlib.sha256(payload).hexdigest().encode() != words[2]:
        raise ValueError(
            f"{os.fspath(path)} is damaged: its checksum does not match (truncated or changed since it was "
            "saved). Copy it again, or align and save again."
        )
    try:
        with np.load(io.BytesIO(payload), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"{os.fspath(path)} holds no archive that unshift saved.") from error
    header = json.loads(arrays.pop(HEADER).tobytes().decode())
    return header, arrays
