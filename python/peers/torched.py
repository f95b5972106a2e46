"""Conversions between numpy arrays and torch tensors over the same memory, without a copy."""

import numpy as np
import torch


def to_torch(model):
    # bf16 is uint16 in numpy, which torch does not have. Only the bits matter here.
    return {name: torch.from_numpy(a.view(np.int16) if a.dtype == np.uint16 else a)
            for name, a in model.items()}


def to_numpy(model):
    return {name: t.numpy() for name, t in model.items()}
