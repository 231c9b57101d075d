"""The networks behind the digit embeddings: the paper's CNN and others, with a hidden layer of 20.

A network is trained as a 10-class classifier of MNIST; the embedding of an image is the output of
its last hidden layer. Everything random (first weights, order of the rows) follows from the
recipe's seed and the number of the epoch, so a run that was stopped can be taken up again and ends
where it would have ended. torch is imported only when something is trained.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import combinations, pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression

from .datasets import DIGITS_NETWORKS, DIGITS_PARTS
from .digits_images import DigitImages
from .moments import moments
from .whitening import whiten

EMBEDDING_WIDTH = 20
IMAGE_SIDE = 28
N_CLASSES = 10

Images = npt.NDArray[np.float32]
Progress = Callable[[int, int, float], None]
"""Called after each epoch with its number (from 1), the number of epochs and the mean loss."""
Embeddings = Mapping[str, npt.NDArray[np.float32]]
Labels = Mapping[str, npt.NDArray[np.int64]]


@dataclass(frozen=True)
class Recipe:
    """All that determines a network, apart from the images and the arithmetic of the machine."""

    architecture: str
    learning_rate: float
    epochs: int
    seed: int
    batch_size: int = 128
    initial: str = "torch"  # first weights: torch's defaults, or those of the paper's own code


RECIPES: dict[str, Recipe] = {
    # The paper says up to 500 epochs; after 380 every training image is right.
    "paper": Recipe("cnn", learning_rate=1e-5, epochs=380, seed=0, initial="authors"),
    "fast_0": Recipe("cnn", learning_rate=1e-3, epochs=10, seed=0),
    "fast_1": Recipe("cnn", learning_rate=1e-3, epochs=10, seed=1),
    "mlp": Recipe("mlp", learning_rate=1e-3, epochs=20, seed=0),
}


@dataclass(frozen=True)
class Network:
    """A trained network; images go in as (n, 28, 28) with values from 0 to 1."""

    recipe: Recipe
    module: Any
    device: str

    def embed(self, images: Images) -> npt.NDArray[np.float32]:
        """Output of the last hidden layer, (n, 20)."""
        embeddings: npt.NDArray[np.float32] = self._run(self.module[0], images)
        return embeddings

    def predict(self, images: Images) -> npt.NDArray[np.int64]:
        """Digits that the network's own output layer gives, (n,)."""
        digits: npt.NDArray[np.int64] = np.argmax(self._run(self.module, images), axis=1)
        return digits

    def _run(self, module: Any, images: Images) -> Any:
        torch = import_torch()
        module.eval()
        with torch.no_grad(), _deterministic(torch):
            parts = [module(_as_batch(torch, part, self.device)) for part in _chunks(images)]
        return torch.cat(parts).cpu().numpy()


def import_torch() -> ModuleType:
    """Torch, or a message that says how to get it."""
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise ModuleNotFoundError(
            "Training a network needs torch, which is not installed. Install it with "
            "pip install 'unshift[torch]', or use the embeddings that come with the package: "
            "unshift.datasets.load_digits_embeddings()."
        ) from error


def train(
    recipe: Recipe,
    images: Images,
    labels: npt.NDArray[Any],
    *,
    device: str | None = None,
    progress: Progress | None = None,
    checkpoint: Path | None = None,
    checkpoint_every: int = 1,
) -> Network:
    """Minimise the softmax cross entropy with Adam; goes on from `checkpoint` where there is one.

    Parameters
    ----------
    recipe
        Which network, and how.
    images, labels
        (n, 28, 28) with values from 0 to 1, and the n digits.
    device
        For example "cpu" or "cuda"; by default a GPU where torch sees one.
    progress
        Called after each epoch.
    checkpoint
        A .npz file, written every `checkpoint_every` epochs.
    """
    torch = import_torch()
    _check_images(images, labels)
    where = device or ("cuda" if torch.cuda.is_available() else "cpu")
    module = _build(torch, recipe).to(where)
    # The epsilon is Keras' default, which the paper's authors left alone.
    optimiser = torch.optim.Adam(module.parameters(), lr=recipe.learning_rate, eps=1e-7)
    first = 0 if checkpoint is None else _resume(torch, checkpoint, recipe, module, optimiser)
    rows = _as_batch(torch, images, where)
    digits = torch.as_tensor(np.asarray(labels, dtype=np.int64), device=where)
    with _deterministic(torch):
        for epoch in range(first, recipe.epochs):
            loss = _epoch(torch, recipe, epoch, module, optimiser, rows, digits)
            if progress is not None:
                progress(epoch + 1, recipe.epochs, loss)
            last = epoch + 1 == recipe.epochs
            if checkpoint is not None and (last or (epoch + 1) % checkpoint_every == 0):
                _save(checkpoint, recipe, epoch + 1, module, optimiser)
    return Network(recipe, module, where)


def retrain(
    images: DigitImages,
    folder: Path,
    *,
    names: Sequence[str] = DIGITS_NETWORKS,
    device: str | None = None,
    progress: Callable[[str, int, int, float], None] | None = None,
) -> None:
    """Train the named networks and write their embeddings and record, as the package ships them.

    What the folder holds already is not done again; `load_digits_embeddings(name, folder)` reads
    it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        if (folder / f"digits_{name}.npz").exists():
            continue
        network = train(
            RECIPES[name],
            images.X["mnist_train"],
            images.y["mnist_train"],
            device=device,
            progress=None if progress is None else partial(progress, name),
            checkpoint=folder / f"checkpoint_{name}.npz",
        )
        embeddings = {part: network.embed(images.X[part]) for part in DIGITS_PARTS}
        right = {part: network.predict(images.X[part]) == images.y[part] for part in DIGITS_PARTS}
        entry = {
            "recipe": asdict(network.recipe),
            "torch": str(import_torch().__version__),
            "device": network.device,
            "accuracy": {part: round(float(values.mean()), 4) for part, values in right.items()},
        }
        write_embeddings(folder, name, embeddings, images.y, entry)


def write_embeddings(
    folder: Path, name: str, embeddings: Embeddings, labels: Labels, entry: Mapping[str, Any]
) -> None:
    """Embeddings in half precision, the labels, and the network's entry in networks.json."""
    path = folder / "networks.json"
    networks = json.loads(path.read_text("utf-8")) if path.exists() else {}
    networks[name] = {**entry, **_evidence(embeddings, labels)}
    path.write_text(json.dumps(networks, indent=2) + "\n", "utf-8")
    digits = {part: labels[part].astype(np.uint8) for part in labels}
    np.savez_compressed(folder / "digits_labels.npz", **digits)  # type: ignore[arg-type]
    # Column by column they take less room. Written last: its being there says all is done.
    halves = {part: np.asfortranarray(embeddings[part], np.float16) for part in embeddings}
    np.savez_compressed(folder / f"digits_{name}.npz", **halves)  # type: ignore[arg-type]


def _evidence(embeddings: Embeddings, labels: Labels) -> dict[str, Any]:
    """Positive eigenvalues (20 less the dead units), and how 45 logistic regressions do on USPS."""
    rank = {part: whiten(moments(values)).rank for part, values in embeddings.items()}
    X, y = embeddings["mnist_train"].astype(np.float64), labels["mnist_train"]
    X_usps, y_usps = embeddings["usps_test"].astype(np.float64), labels["usps_test"]
    accuracies = []
    for pair in combinations(range(N_CLASSES), 2):
        rows, rows_usps = np.isin(y, pair), np.isin(y_usps, pair)
        # Most pairs are separable: at the default tolerance the accuracy depends on where the
        # solver happens to stop, by several points.
        model = LogisticRegression(solver="newton-cholesky", tol=1e-10, max_iter=1000)
        model.fit(X[rows], y[rows])
        accuracies.append(model.score(X_usps[rows_usps], y_usps[rows_usps]))
    return {
        "positive_eigenvalues": rank,
        "pairs_without_adaptation": {
            "mean": round(float(np.mean(accuracies)), 4),
            "lowest": round(float(np.min(accuracies)), 4),
        },
    }


def _check_images(images: Images, labels: npt.NDArray[Any]) -> None:
    if images.ndim != 3 or images.shape[1:] != (IMAGE_SIDE, IMAGE_SIDE):
        raise ValueError(
            f"images should have shape (n, {IMAGE_SIDE}, {IMAGE_SIDE}); got {images.shape}. "
            "Smaller images can be scaled with unshift.digits_images.resize."
        )
    if len(labels) != len(images):
        raise ValueError(f"{len(images)} images need as many labels; got {len(labels)}.")
    if images.min() < 0 or images.max() > 1:
        raise ValueError(
            f"images should have values from 0 to 1; got {images.min()} to {images.max()}. "
            "Divide bytes by 255."
        )


def _epoch(
    torch: Any, recipe: Recipe, epoch: int, module: Any, optimiser: Any, rows: Any, digits: Any
) -> float:
    """One pass over all rows in an order drawn from (seed, epoch); the mean loss."""
    state = np.random.SeedSequence([recipe.seed, epoch]).generate_state(1, np.uint32)
    # Drawn on the CPU, so that the order does not depend on the device.
    source = torch.Generator().manual_seed(int(state[0]))
    order = torch.randperm(len(rows), generator=source).to(rows.device)
    total = torch.zeros((), device=rows.device)
    module.train()
    for chosen in order.split(recipe.batch_size):
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(module(rows[chosen]), digits[chosen])
        loss.backward()
        optimiser.step()
        total += loss.detach() * len(chosen)
    return float(total) / len(rows)


# Architectures: Sequential(hidden layers up to the embedding, output layer)


def _build(torch: Any, recipe: Recipe) -> Any:
    hidden = {"cnn": _cnn, "mlp": _mlp}
    if recipe.architecture not in hidden:
        raise ValueError(
            f"architecture should be one of {', '.join(hidden)}; got {recipe.architecture!r}."
        )
    with torch.random.fork_rng(devices=[]):  # leaves the caller's random state as it was
        torch.random.default_generator.manual_seed(recipe.seed)
        embedding = torch.nn.Sequential(*hidden[recipe.architecture](torch.nn))
        module = torch.nn.Sequential(embedding, torch.nn.Linear(EMBEDDING_WIDTH, N_CLASSES))
        if recipe.initial == "authors":
            module.apply(lambda layer: _authors_weights(torch.nn, layer))
    return module


def _cnn(nn: Any) -> list[Any]:
    """The paper's: four convolutions with ReLU and 2 x 2 max pooling, 28 -> 14 -> 7 -> 3 -> 1."""
    layers: list[Any] = []
    for width_in, width_out in pairwise((1, 32, 128, 256, 512)):
        layers += [nn.Conv2d(width_in, width_out, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return [*layers, nn.Flatten(), nn.Linear(512, EMBEDDING_WIDTH), nn.ReLU()]


def _mlp(nn: Any) -> list[Any]:
    """No convolution: pixels, 256 and 20 ReLU units."""
    first = nn.Linear(IMAGE_SIDE * IMAGE_SIDE, 256)
    return [nn.Flatten(), first, nn.ReLU(), nn.Linear(256, EMBEDDING_WIDTH), nn.ReLU()]


def _authors_weights(nn: Any, layer: Any) -> None:
    """First weights as the paper's published code draws them; the paper itself does not say.

    Convolutions, their biases too: Glorot's normal, cut off at two standard deviations.
    Other layers: N(0, .05²).
    """
    if isinstance(layer, nn.Linear):
        nn.init.normal_(layer.weight, std=0.05)
        nn.init.normal_(layer.bias, std=0.05)
    elif isinstance(layer, nn.Conv2d):
        area = layer.weight[0, 0].numel()
        fans = area * (layer.in_channels + layer.out_channels)
        _cut_normal(nn, layer.weight, np.sqrt(2 / fans))
        _cut_normal(nn, layer.bias, np.sqrt(1 / layer.out_channels))


def _cut_normal(nn: Any, values: Any, std: float) -> None:
    """A normal cut off at two of its deviations, and of standard deviation `std` after that."""
    before = std / 0.87962566103423978
    nn.init.trunc_normal_(values, std=before, a=-2 * before, b=2 * before)


# Arrays in, arrays out


def _as_batch(torch: Any, images: Images, device: str) -> Any:
    return torch.as_tensor(images, dtype=torch.float32, device=device).unsqueeze(1)


def _chunks(images: Images, size: int = 2000) -> list[Images]:
    return [images[start : start + size] for start in range(0, len(images), size)]


def _deterministic(torch: Any) -> Any:
    """Same seed, same bits, on one machine."""
    return torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True)


# Checkpoints are plain arrays


def _save(path: Path, recipe: Recipe, epoch: int, module: Any, optimiser: Any) -> None:
    arrays = {"recipe": np.array(json.dumps(asdict(recipe))), "epoch": np.array(epoch)}
    for name, values in module.state_dict().items():
        arrays[f"module/{name}"] = values.cpu().numpy()
    for index, averages in optimiser.state_dict()["state"].items():
        for name, values in averages.items():
            arrays[f"optimiser/{index}/{name}"] = values.cpu().numpy()
    unfinished = path.with_suffix(".part.npz")
    np.savez(unfinished, **arrays)  # type: ignore[arg-type]
    os.replace(unfinished, path)  # a run killed here leaves the earlier checkpoint whole


def _resume(torch: Any, path: Path, recipe: Recipe, module: Any, optimiser: Any) -> int:
    """Fill module and optimiser from the checkpoint; the number of epochs done."""
    if not path.exists():
        return 0
    with np.load(path, allow_pickle=False) as arrays:
        written_for = json.loads(str(arrays["recipe"]))
        if written_for != asdict(recipe):
            raise ValueError(
                f"{path} is the checkpoint of another recipe ({written_for}). "
                "Remove it, or name another file."
            )
        tensors = {
            name: torch.as_tensor(arrays[name]) for name in arrays.files if name.count("/") > 0
        }
        epoch = int(arrays["epoch"])
    module.load_state_dict(
        {n.removeprefix("module/"): t for n, t in tensors.items() if n.startswith("module/")}
    )
    state: dict[int, dict[str, Any]] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimiser/"):
            _, index, moment = name.split("/")
            state.setdefault(int(index), {})[moment] = tensor
    groups = optimiser.state_dict()["param_groups"]
    optimiser.load_state_dict({"state": state, "param_groups": groups})
    return epoch
