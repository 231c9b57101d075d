"""The data of the package, the simulated mixture, the digit images and the training of networks."""

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.linear_model import LogisticRegression

from unshift import digits_images, networks
from unshift.datasets import (
    DIGITS_NETWORKS,
    MIXTURE_COVARIANCES,
    MIXTURE_MEANS,
    digits_networks,
    load_digits_embeddings,
    make_mixture,
)
from unshift.digits_images import DigitImages, Edition, load_images, resize

SIZES = {"source": 60000, "source_test": 10000, "target_train": 7291, "target": 2007}


@pytest.mark.parametrize("network", DIGITS_NETWORKS)
def test_embeddings_have_the_sizes_of_mnist_and_usps(network: str) -> None:
    digits = load_digits_embeddings(network)
    for part, n in SIZES.items():
        X, y = getattr(digits, f"X_{part}"), getattr(digits, f"y_{part}")
        assert X.shape == (n, 20)
        assert X.dtype == np.float32
        assert X.flags.c_contiguous
        assert np.isfinite(X).all()
        assert y.shape == (n,)
        assert y.dtype == np.int64
        assert set(np.unique(y)) == set(range(10))


@pytest.mark.parametrize("network", DIGITS_NETWORKS)
def test_embeddings_are_those_of_the_record(network: str) -> None:
    digits, record = load_digits_embeddings(network), digits_networks()[network]
    assert record["recipe"] == dataclasses.asdict(networks.RECIPES[network])
    alive = np.count_nonzero(np.ptp(digits.X_source, axis=0))
    assert alive >= record["positive_eigenvalues"]["mnist_train"]
    # The last layer is linear in the embedding, so a linear model must do about as well.
    model = LogisticRegression(max_iter=100, tol=1e-2)
    model.fit(digits.X_source[::20] / digits.X_source.std(), digits.y_source[::20])
    score = model.score(digits.X_source_test / digits.X_source.std(), digits.y_source_test)
    assert score == pytest.approx(record["accuracy"]["mnist_test"], abs=0.02)


def test_an_unknown_network_is_refused_with_the_names_of_the_known() -> None:
    with pytest.raises(ValueError, match=r"should be one of 'paper', .*'mlp'; got 'cnn'"):
        load_digits_embeddings("cnn")


def test_mixture_is_the_planted_affine_view_of_its_shared_rows() -> None:
    data = make_mixture(3)
    for X, Z, theta, mu in (
        (data.X_source, data.Z_source, data.theta_source, data.mu_source),
        (data.X_target, data.Z_target, data.theta_target, data.mu_target),
    ):
        assert X.shape == (300, 5)
        np.testing.assert_allclose(X, Z @ theta.T + mu)
        # eq. 2: z = (θᵀθ)^{-1} θᵀ (x − μ) undoes it
        np.testing.assert_allclose((X - mu) @ np.linalg.pinv(theta).T, Z, atol=1e-10)


def test_mixture_has_the_moments_of_the_paper() -> None:
    data = make_mixture(0, n_rows=40000)
    Z = np.vstack([data.Z_source, data.Z_target])
    y = np.concatenate([data.y_source, data.y_target])
    for label in (0, 1):
        np.testing.assert_allclose(Z[y == label].mean(axis=0), MIXTURE_MEANS[label], atol=0.06)
        np.testing.assert_allclose(np.cov(Z[y == label].T), MIXTURE_COVARIANCES[label], atol=0.12)
    assert y.mean() == pytest.approx(0.5, abs=0.02)


def test_mixture_follows_its_random_state() -> None:
    first, second, other = make_mixture(5), make_mixture(5), make_mixture(6)
    for field in dataclasses.fields(first):
        ours = getattr(first, field.name)
        np.testing.assert_array_equal(ours, getattr(second, field.name))
        assert not np.array_equal(ours, getattr(other, field.name))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_rows": 301}, "n_rows should be even and at least 4"),
        ({"n_features": 1}, "n_features should be at least 2"),
    ],
)
def test_mixture_refuses_what_it_cannot_halve_or_embed(
    arguments: dict[str, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        make_mixture(0, **arguments)


# Images


def fake_arrays(levels: int, side: int, seed: int) -> dict[str, npt.NDArray[np.uint16]]:
    rng = np.random.default_rng(seed)
    arrays = {}
    for part, n in (("train", 40), ("test", 20)):
        arrays[f"X_{part}"] = rng.integers(0, levels + 1, size=(n, side, side), dtype=np.uint16)
        arrays[f"X_{part}"].ravel()[:2] = 0, levels
        arrays[f"y_{part}"] = (np.arange(n) % 10).astype(np.uint16)
    return arrays


RAW = {"mnist": fake_arrays(255, 28, 0), "usps": fake_arrays(2000, 16, 1)}
EDITIONS = {
    name: Edition(
        data_id=index,
        side=arrays["X_train"].shape[1],
        levels=levels,
        n_train=40,
        n_test=20,
        digests={
            k: hashlib.sha256(v.astype("<u2").tobytes()).hexdigest() for k, v in arrays.items()
        },
    )
    for index, (levels, (name, arrays)) in enumerate(zip((255, 2000), RAW.items(), strict=True))
}


class FakeOpenML:
    """Serves both datasets in OpenML's forms and remembers what it was asked for."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.asked: list[int] = []
        self.fail_at = fail_at

    def __call__(self, data_id: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        self.asked.append(data_id)
        if data_id == self.fail_at:
            raise ConnectionError("the line broke")
        arrays = RAW["mnist" if data_id == 0 else "usps"]
        X = np.concatenate([arrays["X_train"], arrays["X_test"]]).reshape(60, -1).astype(float)
        y = np.concatenate([arrays["y_train"], arrays["y_test"]])
        if data_id == 0:
            return X, y.astype(str).astype(object)
        return np.round(X / 1000 - 1, 3), (y + 1).astype(str).astype(object)


def assert_is_the_fake_data(images: DigitImages) -> None:
    for part in ("train", "test"):
        np.testing.assert_allclose(
            images.X[f"mnist_{part}"], RAW["mnist"][f"X_{part}"] / 255, rtol=1e-6
        )
        expected = resize(RAW["usps"][f"X_{part}"] / 2000, 28)
        np.testing.assert_allclose(images.X[f"usps_{part}"], expected, atol=1e-6)
        for name in RAW:
            assert images.X[f"{name}_{part}"].dtype == np.float32
            np.testing.assert_array_equal(images.y[f"{name}_{part}"], RAW[name][f"y_{part}"])


def test_images_in_the_forms_of_openml_become_ink_from_0_to_1_and_digits() -> None:
    assert_is_the_fake_data(load_images(fetch=FakeOpenML(), editions=EDITIONS))


def test_images_from_a_folder_need_no_fetching(tmp_path: Path) -> None:
    np.savez(tmp_path / "mnist.npz", **RAW["mnist"])
    usps = {k: v / np.float32(2000) if k[0] == "X" else v for k, v in RAW["usps"].items()}
    np.savez(tmp_path / "usps.npz", **usps)
    fetch = FakeOpenML()
    assert_is_the_fake_data(load_images(tmp_path, fetch=fetch, editions=EDITIONS))
    assert not fetch.asked


def test_an_interrupted_download_goes_on_with_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ConnectionError, match="the line broke"):
        load_images(cache_dir=tmp_path / "cache", fetch=FakeOpenML(fail_at=1), editions=EDITIONS)
    second, third = FakeOpenML(), FakeOpenML()
    for fetch in (second, third):
        images = load_images(cache_dir=tmp_path / "cache", fetch=fetch, editions=EDITIONS)
        assert_is_the_fake_data(images)
    assert second.asked == [1]
    assert third.asked == []
    assert sorted(p.name for p in (tmp_path / "cache").iterdir()) == ["mnist.npz", "usps.npz"]


def changed(key: str, values: Any) -> dict[str, npt.NDArray[Any]]:
    return {**RAW["mnist"], key: values}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (changed("X_test", RAW["mnist"]["X_test"][::-1]), r"X_test has the right shape .*SHA-256"),
        (changed("y_train", RAW["mnist"]["y_train"][::-1]), "y_train has the right shape"),
        (changed("X_test", RAW["mnist"]["X_test"][:5]), r"X_test has shape \(5, 28, 28\)"),
        (changed("X_train", RAW["mnist"]["X_train"] * 2), "values from 0 to 510; expected"),
        (changed("X_train", RAW["mnist"]["X_train"] / 2), r"no multiples of 1/255"),
        (changed("y_test", RAW["mnist"]["y_test"] + 5), "labels from 5 to 14; expected 0 to 9"),
        (changed("y_test", np.full(20, "six")), "labels that are no numbers"),
        ({"X_train": RAW["mnist"]["X_train"]}, "has no X_test, y_test, y_train"),
    ],
)
def test_images_that_are_not_the_known_ones_are_refused(
    arrays: dict[str, npt.NDArray[Any]], message: str, tmp_path: Path
) -> None:
    np.savez(tmp_path / "mnist.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        load_images(tmp_path, editions=EDITIONS)


def test_a_download_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="mnist from OpenML has 10 rows; expected 60"):
        load_images(fetch=lambda _: (np.zeros((10, 784)), np.zeros(10)), editions=EDITIONS)


def test_without_a_network_the_message_names_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def offline(**options: Any) -> None:
        asked.append(options)
        raise OSError("no route to host")

    monkeypatch.setattr(digits_images, "fetch_openml", offline)
    with pytest.raises(ConnectionError, match=r"no route to host.* pass data_dir"):
        load_images()
    assert [options["data_id"] for options in asked] == [digits_images.EDITIONS["mnist"].data_id]


def test_a_folder_without_the_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"should hold mnist.npz and usps.npz"):
        load_images(tmp_path, editions=EDITIONS)


def test_resize_keeps_what_is_linear_and_copies_no_margin() -> None:
    ramp = np.tile((np.arange(16) + 0.5) / 16, (1, 16, 1))
    scaled = resize(ramp, 28)
    inner = (np.arange(28) + 0.5) / 28
    inside = (inner > 0.5 / 16) & (inner < 1 - 0.5 / 16)  # beyond the outer centres it is constant
    np.testing.assert_allclose(scaled[0][:, inside], np.tile(inner[inside], (28, 1)), atol=1e-6)
    np.testing.assert_allclose(resize(np.ones((1, 16, 16)), 28), 1)


# Networks


def small_images() -> DigitImages:
    rng = np.random.default_rng(0)
    X, y = {}, {}
    for part in ("mnist_train", "mnist_test", "usps_train", "usps_test"):
        y[part] = np.arange(100) % 10
        strokes = np.eye(10)[y[part]].repeat(28 * 3, axis=1)[:, : 28 * 28]
        X[part] = np.clip(
            strokes.reshape(100, 28, 28) * 0.8 + rng.random((100, 28, 28)) * 0.2, 0, 1
        )
    return DigitImages({k: v.astype(np.float32) for k, v in X.items()}, y)


SMALL = networks.Recipe("mlp", learning_rate=1e-2, epochs=4, seed=0, batch_size=20)


def test_without_torch_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'unshift\[torch\]'"):
        networks.import_torch()


def test_the_papers_network_has_its_layers() -> None:
    torch = pytest.importorskip("torch")
    recipe = dataclasses.replace(networks.RECIPES["paper"], epochs=0)
    images = small_images()
    network = networks.train(recipe, images.X["mnist_train"], images.y["mnist_train"], device="cpu")
    shapes = [tuple(p.shape) for p in network.module.parameters() if p.ndim > 1]
    assert shapes[:4] == [(32, 1, 3, 3), (128, 32, 3, 3), (256, 128, 3, 3), (512, 256, 3, 3)]
    assert shapes[4:] == [(20, 512), (10, 20)]
    kinds = [type(layer) for layer in network.module[0]]
    assert kinds.count(torch.nn.MaxPool2d) == 4
    embeddings = network.embed(images.X["usps_test"])
    assert embeddings.shape == (100, 20)
    assert embeddings.dtype == np.float32
    assert (embeddings >= 0).all()


def test_training_follows_its_seed_and_leaves_torchs_random_state_alone() -> None:
    torch = pytest.importorskip("torch")
    images = small_images()
    X, y = images.X["mnist_train"], images.y["mnist_train"]
    before = torch.random.get_rng_state()
    losses: list[tuple[int, int, float]] = []
    first = networks.train(SMALL, X, y, device="cpu", progress=lambda *event: losses.append(event))
    again = networks.train(SMALL, X, y, device="cpu")
    other = networks.train(dataclasses.replace(SMALL, seed=1), X, y, device="cpu")
    assert torch.equal(before, torch.random.get_rng_state())
    np.testing.assert_array_equal(first.embed(X), again.embed(X))
    assert not np.array_equal(first.embed(X), other.embed(X))
    assert [event[:2] for event in losses] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert losses[-1][2] < losses[0][2]


def test_an_interrupted_training_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    images = small_images()
    X, y = images.X["mnist_train"], images.y["mnist_train"]

    def stop(epoch: int, epochs: int, loss: float) -> None:
        if epoch == 3:
            raise KeyboardInterrupt

    path = tmp_path / "checkpoint.npz"
    options: dict[str, Any] = {"device": "cpu", "checkpoint": path, "checkpoint_every": 2}
    with pytest.raises(KeyboardInterrupt):
        networks.train(SMALL, X, y, progress=stop, **options)
    epochs: list[int] = []
    resumed = networks.train(SMALL, X, y, progress=lambda e, *_: epochs.append(e), **options)
    assert epochs == [3, 4]
    np.testing.assert_array_equal(
        resumed.embed(X), networks.train(SMALL, X, y, device="cpu").embed(X)
    )
    with pytest.raises(ValueError, match="checkpoint of another recipe"):
        networks.train(dataclasses.replace(SMALL, seed=1), X, y, **options)


@pytest.mark.parametrize(
    ("shape", "labels", "top", "message"),
    [
        ((10, 16, 16), 10, 1, r"shape \(n, 28, 28\); got \(10, 16, 16\)"),
        ((10, 28, 28), 9, 1, "10 images need as many labels; got 9"),
        ((10, 28, 28), 10, 255, "values from 0 to 1; got .* Divide bytes by 255"),
    ],
)
def test_images_a_network_cannot_take_are_refused(
    shape: tuple[int, ...], labels: int, top: float, message: str
) -> None:
    pytest.importorskip("torch")
    images = np.full(shape, top, dtype=np.float32)
    with pytest.raises(ValueError, match=message):
        networks.train(SMALL, images, np.zeros(labels, dtype=int))


def test_retraining_writes_what_the_loader_reads_and_does_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setitem(networks.RECIPES, "mlp", SMALL)
    images, events = small_images(), []
    for _ in range(2):
        networks.retrain(
            images, tmp_path, names=["mlp"], device="cpu", progress=lambda *e: events.append(e[:3])
        )
    assert events == [("mlp", epoch, 4) for epoch in (1, 2, 3, 4)]
    digits = load_digits_embeddings("mlp", tmp_path)
    trained = networks.train(SMALL, images.X["mnist_train"], images.y["mnist_train"], device="cpu")
    expected = trained.embed(images.X["usps_test"])
    np.testing.assert_allclose(digits.X_target, expected, rtol=1e-3, atol=1e-6)
    np.testing.assert_array_equal(digits.y_target, images.y["usps_test"])
    record = json.loads((tmp_path / "networks.json").read_text("utf-8"))["mlp"]
    assert record["recipe"] == dataclasses.asdict(SMALL)
    assert set(record) == set(digits_networks()["mlp"])
