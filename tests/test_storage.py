"""Saved files: what is written comes back, and nothing else is let in or run."""

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest

import unshift
from planted import view
from unshift import storage

OPTIONS: dict[str, Any] = {"n_starts": 1, "random_state": 0, "choice": "paper"}


@pytest.fixture(scope="module", params=["two", "many"])
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The content of a file of two domains, and of one of many."""
    rows = {name: view(3, seed, p=2, n=90).rows for seed, name in enumerate("ab")}
    path = tmp_path_factory.mktemp("saved") / "file"
    if request.param == "two":
        unshift.align(*rows.values(), **OPTIONS).save(path)
    else:
        unshift.align_many(rows, **OPTIONS).save(path)
    return path.read_bytes()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


REFUSED = "is damaged: its checksum|is not a file that unshift saved|has format version"


def test_what_was_loaded_is_written_again_as_it_was(saved: bytes, path: Path) -> None:
    path.write_bytes(saved)
    unshift.load(str(path)).save(path)
    assert path.read_bytes() == saved


def test_a_file_cut_anywhere_is_refused(saved: bytes, path: Path) -> None:
    for length in {*range(0, 90, 7), *range(90, len(saved), len(saved) // 20), len(saved) - 1}:
        path.write_bytes(saved[:length])
        with pytest.raises(ValueError, match=REFUSED):
            unshift.load(path)
    path.write_bytes(saved + b"\0")
    with pytest.raises(ValueError, match="is damaged: its checksum"):
        unshift.load(path)


def test_one_flipped_bit_anywhere_is_refused(saved: bytes, path: Path) -> None:
    rng = np.random.default_rng(0)
    for at in (*range(0, 82, 3), *rng.integers(82, len(saved), 40)):
        changed = bytearray(saved)
        changed[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(changed))
        with pytest.raises(ValueError, match=REFUSED):
            unshift.load(path)


def signed(payload: bytes, version: int = storage.VERSION) -> bytes:
    """A file with the right checksum, whatever it holds."""
    digest = hashlib.sha256(payload).hexdigest()
    return f"unshift {version} {digest}\n".encode() + payload


def archive(header: Any, **arrays: Any) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    buffer = io.BytesIO()
    np.savez(buffer, header=np.frombuffer(text, np.uint8), **arrays)
    return buffer.getvalue()


def plain_array(values: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, values)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "payload",
    [
        archive({}),
        archive([]),
        archive({"kind": "alignment"}),
        archive({"kind": "alignment", "candidates": 3, "diagnosis": {}}),
        archive({"kind": "many alignments"}),
        archive({"kind": "something else"}),
        archive(b"\xff\xfe no text"),
        archive(b"no json"),
        plain_array(np.arange(3)),
        b"",
        b"PK\x03\x04 no archive",
    ],
)
def test_signed_files_that_hold_something_else_are_refused(payload: bytes, path: Path) -> None:
    path.write_bytes(signed(payload))
    with pytest.raises(ValueError, match="holds no archive that unshift saved: its checksum is"):
        unshift.load(path)


class Planted:
    """Runs when it is unpickled."""

    def __reduce__(self) -> Any:
        return Path.touch, (Path("planted-by-a-pickle"),)


def test_loading_runs_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    joblib.dump(Planted(), path)
    pickled = path.read_bytes()
    objects = np.array([Planted()], dtype=object)
    for content in (
        pickled,
        signed(pickled),
        signed(plain_array(objects)),
        signed(archive({"kind": "alignment"}, x=objects)),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="that unshift saved"):
            unshift.load(path)
    assert not Path("planted-by-a-pickle").exists()
    joblib.load(io.BytesIO(pickled))  # the trap is one
    assert Path("planted-by-a-pickle").exists()


def test_a_later_version_asks_for_a_later_unshift(saved: bytes, path: Path) -> None:
    payload = saved.partition(b"\n")[2]
    path.write_bytes(signed(payload, storage.VERSION + 1))
    with pytest.raises(ValueError, match=r"has format version 2, and this unshift reads version 1"):
        unshift.load(path)


def test_an_estimator_that_joblib_saved_is_named(path: Path) -> None:
    joblib.dump(unshift.AffineAligner(), path)
    with pytest.raises(ValueError, match="What joblib saved, an estimator for one, is not read"):
        unshift.load(path)


def test_a_save_that_fails_leaves_the_older_file(saved: bytes, path: Path) -> None:
    path.write_bytes(saved)
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        storage.write(path, {"kind": "alignment"}, {"x": np.array([print], dtype=object)})
    assert path.read_bytes() == saved
    assert [file.name for file in path.parent.iterdir()] == ["file"]
