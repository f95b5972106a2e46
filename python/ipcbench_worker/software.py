"""The software that this process runs on."""

import platform
import sys

from . import arithmetic


def software() -> dict[str, str]:
    """Versions of Python and of imported modules, and torch's threads."""
    found = {"python": platform.python_version(), "kernel": arithmetic.KERNEL, "threads": "1"}
    names = {"numpy": "numpy", "torch": "torch", "grpcio": "grpc", "requests": "requests",
             "orjson": "orjson", "pyzmq": "zmq"}
    for name, module in names.items():
        if module in sys.modules:
            found[name] = str(sys.modules[module].__version__)
    if torch := sys.modules.get("torch"):
        found["threads"] = str(torch.get_num_threads())
    if protobuf := sys.modules.get("google.protobuf"):
        from google.protobuf.internal import api_implementation

        found["protobuf"] = f"{protobuf.__version__} ({api_implementation.Type()})"
    return found
