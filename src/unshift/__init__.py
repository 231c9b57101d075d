"""unshift: bring two domains that are affine views of the same thing into one space."""

from . import stiefel
from .affine import AffineMap
from .align import align
from .alignment import Alignment
from .estimators import AffineAligner, AlignedClassifier, AlignedRegressor
from .many import align_many, load
from .mmd import mmd2

__all__ = [
    "AffineAligner",
    "AffineMap",
    "AlignedClassifier",
    "AlignedRegressor",
    "Alignment",
    "align",
    "align_many",
    "load",
    "mmd2",
    "stiefel",
]
