"""Which driver a program meets as libcuda.so.1, for the start record of sections that are scripts."""

import ctypes


def driver_facts():
    """{"device", "driver_version", "simulated"}, or {"device": None, "why": ...} where there is none."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return {"device": None, "why": str(error)}
    version, device, name = ctypes.c_int(), ctypes.c_int(), ctypes.create_string_buffer(256)
    for call in (lambda: cuda.cuInit(0), lambda: cuda.cuDriverGetVersion(ctypes.byref(version)),
                 lambda: cuda.cuDeviceGet(ctypes.byref(device), 0), lambda: cuda.cuDeviceGetName(name, 256, device)):
        if (result := call()) != 0:
            return {"device": None, "why": f"the driver answered {result}"}
    return {"device": name.value.decode(errors="replace"), "driver_version": version.value,
            "simulated": hasattr(cuda, "simgpuLibrarySetBody")}
