"""Optional packages, imported where they are used."""

from __future__ import annotations

import importlib
from typing import Any


def extra(module: str, name: str) -> Any:
    """An optional module, or a sentence that says which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ModuleNotFoundError(
            f"This needs {module.partition('.')[0]}, which is not installed: "
            f"pip install 'unshift[{name}]'."
        ) from error
