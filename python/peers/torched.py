"""Torch's tensors over the memory of numpy's arrays, and the reverse. Neither copies."""

import numpy as np
import torch


def to_torch(model):
    # Torch has no uint16, as which numpy shows bf16: only the bits matter here.
    return {name: torch.from_numpy(a.view(np.int16) if a.dtype == np.uint16 else a)
            for name, a in model.items()}


def to_numpy(model):
    return {name: t.numpy() for name, t in model.items()}
