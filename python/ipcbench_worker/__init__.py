"""Python workers of ipcbench, and the arithmetic that reference rows share with them."""

import os
import sys

VERSION = ""  # make wheel writes the version; the copy inside of the program needs none

# ipcbench gives its version to peers, which may import this package from an installation.
_program = os.environ.get("_IPCBENCH_VERSION", VERSION)
if VERSION not in ("", _program):
    sys.exit(f"ipcbench_worker {VERSION} in {os.path.dirname(__file__)} cannot work for ipcbench "
             f"{_program}: install the same version of both")
