"""Writes a model's tensors to a .safetensors file, which ipcbench can read."""

import json
import struct

TYPES = {"float16": "F16", "float32": "F32", "float64": "F64", "int8": "I8", "int16": "I16",
         "int32": "I32", "int64": "I64", "uint8": "U8", "bool": "BOOL"}


def save(path, tensors):
    """Writes tensors, numpy arrays by name, to a file."""
    header, at = {}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": TYPES[array.dtype.name], "shape": list(array.shape),
                        "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            f.write(array.tobytes())
