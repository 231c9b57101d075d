"""One file for a model: no pickle, a version, a checksum, the same bits back.

A line ``unshift <version> <sha256>``, then an uncompressed numpy archive of a JSON header and of
arrays. The checksum covers all that follows the line.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from .affine import AffineMap
from .choice import Candidate
from .diagnosis import Diagnosis

VERSION = 1
HEADER = "header"

Arrays = dict[str, npt.NDArray[Any]]

# What a file holds of a map and of a candidate.
PARTS = ("center", "matrix", "offset")
MAPS = ("source", "target", "target_to_source")
NUMBERS = (
    *("kind", "mmd2", "displacement", "starts", "error", "n_labelled"),
    *("support", "freedom", "misfit", "weight", "balance", "discord", "information"),
    *("own_discord", "own_error", "outside", "residual"),
)


def write(path: str | os.PathLike[str], header: dict[str, Any], arrays: Arrays) -> None:
    """Write header and arrays; an older file of that name is replaced only once all is written."""
    buffer = io.BytesIO()
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    # numpy before 2.1 cannot be told not to pickle here, so that it never has to is seen to first
    objects = [key for key, array in arrays.items() if array.dtype.hasobject]
    if objects:
        raise ValueError(f"Object arrays cannot be saved without pickle: {', '.join(objects)}.")
    np.savez(buffer, **{HEADER: text}, **arrays)  # type: ignore[arg-type]
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
        raise ValueError(
            f"{os.fspath(path)} is not a file that unshift saved: its first line is not ours. "
            "What joblib saved, an estimator for one, is not read here."
        )
    if words[1] != str(VERSION).encode():
        raise ValueError(
            f"{os.fspath(path)} has format version {words[1].decode(errors='replace')}, "
            f"and this unshift reads version {VERSION}. Install the unshift that wrote it, "
            "or align and save again."
        )
    if hashlib.sha256(payload).hexdigest().encode() != words[2]:
        raise ValueError(
            f"{os.fspath(path)} is damaged: its checksum does not match (truncated or changed "
            "since it was saved). Copy it again, or align and save again."
        )
    with unpacking(path), np.load(io.BytesIO(payload), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
        header = json.loads(arrays.pop(HEADER).tobytes().decode())
    return header, arrays


@contextmanager
def unpacking(path: str | os.PathLike[str]) -> Iterator[None]:
    """Refuse content that lacks what ``write`` put there, though its checksum is right."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError, EOFError, BadZipFile) as error:
        raise ValueError(
            f"{os.fspath(path)} holds no archive that unshift saved: its checksum is right, but "
            "something else made or changed it. Align and save again."
        ) from error


def pack_map(map_: AffineMap, key: str, arrays: Arrays) -> dict[str, Any]:
    """The map's names for the header; its arrays go to ``arrays`` under ``key``."""
    arrays.update({f"{key}.{part}": getattr(map_, part) for part in PARTS})
    return {"names_in": map_.names_in, "names_out": map_.names_out}


def unpack_map(fields: dict[str, Any], key: str, arrays: Arrays) -> AffineMap:
    """The map that ``pack_map`` put under ``key``."""
    center, matrix, offset = (arrays[f"{key}.{part}"] for part in PARTS)
    names_in, names_out = (
        None if names is None else tuple(names)
        for names in (fields["names_in"], fields["names_out"])
    )
    return AffineMap(center, matrix, offset, names_in, names_out)


def pack_candidate(candidate: Candidate, key: str, arrays: Arrays) -> dict[str, Any]:
    """The candidate's maps and numbers for the header; its arrays go to ``arrays``."""
    if candidate.rotation is not None:
        arrays[f"{key}.rotation"] = candidate.rotation
    maps = {name: pack_map(getattr(candidate, name), f"{key}.{name}", arrays) for name in MAPS}
    return maps | {name: getattr(candidate, name) for name in NUMBERS}


def unpack_candidate(fields: dict[str, Any], key: str, arrays: Arrays) -> Candidate:
    """The candidate that ``pack_candidate`` put under ``key``."""
    parts: dict[str, Any] = {name: fields[name] for name in NUMBERS}
    parts |= {name: tuple(parts[name]) for name in ("balance", "residual")}
    parts |= {name: unpack_map(fields[name], f"{key}.{name}", arrays) for name in MAPS}
    return Candidate(**parts, rotation=arrays.get(f"{key}.rotation"))


def pack_diagnosis(diagnosis: Diagnosis) -> dict[str, Any]:
    """Verdict, reasons and numbers for the header."""
    return asdict(diagnosis)


def unpack_diagnosis(fields: dict[str, Any]) -> Diagnosis:
    """The diagnosis that ``pack_diagnosis`` described."""
    balance = {name: (source, target) for name, (source, target) in fields["class_balance"].items()}
    return Diagnosis(fields["verdict"], tuple(fields["reasons"]), fields["numbers"], balance)
