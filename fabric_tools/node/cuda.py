"""Can a CUDA program start on this node? Runs in a child: a hung driver hangs it.

Calls ``cuInit`` and ``cuDeviceGetCount`` of the driver's own library and prints one JSON object.
No context is made and no memory is taken. ``cuInit`` answers 802 where the NVSwitch fabric is not
ready, and 803 where library and kernel module are of different versions (cuda.h, CUresult).
"""

from __future__ import annotations

import ctypes
import json
import sys

from fabric_tools.node.nvml import EXIT_ABSENT


def main() -> int:
    """Print the JSON; exit 69 where there is no CUDA library."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        print(error, file=sys.stderr)
        return EXIT_ABSENT
    result = int(cuda.cuInit(0))
    count = ctypes.c_int(0)
    devices = None
    if result == 0:
        result = int(cuda.cuDeviceGetCount(ctypes.byref(count)))
        devices = count.value if result == 0 else None
    print(json.dumps({"code": result, "name": _name(cuda, result), "devices": devices}))
    return 0


def _name(cuda: ctypes.CDLL, result: int) -> str:
    text = ctypes.c_char_p()
    if cuda.cuGetErrorName(result, ctypes.byref(text)) != 0 or text.value is None:
        return ""
    return text.value.decode("ascii", "replace")
