"""A stand-in for nvidia-ml-py's `pynvml`, for guest processes of tests: put its folder first on PYTHONPATH.

The file named in OWNLAB_FAKE_NVML says what the driver does:

    {"init": 18 | "hang" | "crash",                  how nvmlInit ends; without it, it succeeds
     "driver": "580.159.04", "cuda": 13000,
     "missing": ["nvmlDeviceGetMemoryInfo_v2"],      functions that the library does not have
     "cards": [{"nvmlDeviceGetName": "NVIDIA T4",    what a function returns for a card; else an idle H200's answer
                "errors": {"nvmlDeviceGetUUID": 15}, functions that fail for it, with NVML's code
                "handle": 15 | "hang" | "crash",     how nvmlDeviceGetHandleByIndex ends for it
                "gpm": {"2": 96.5},                  what it measures between two samples, by NVML's number; null: no GPM
                "mig": [{…}]}],                      its MIG instances, as cards
     "live": true}                                   the file is read again each time the cards are counted
"""

import ctypes
import json
import os
import signal
import time
from types import SimpleNamespace

NVML_TEMPERATURE_GPU = 0
NVML_CLOCK_SM = 1
NVML_CLOCK_MEM = 2
NVML_VOLATILE_ECC = 0
NVML_MEMORY_ERROR_TYPE_CORRECTED = 0
NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
NVML_GPM_METRICS_GET_VERSION = 1
nvmlMemory_v2 = 0x02000028
_PLAN = {}


def _read_plan():
    with open(os.environ["OWNLAB_FAKE_NVML"], encoding="utf-8") as file:
        _PLAN.clear()
        _PLAN.update(json.load(file))


_read_plan()

# The library's own words (nvmlErrorString of driver 580); the bindings' differ for 18.
_WORDS = {
    1: "Uninitialized",
    3: "Not Supported",
    4: "Insufficient Permissions",
    6: "Not Found",
    9: "Driver Not Loaded",
    12: "NVML Shared Library Not Found",
    13: "Function Not Found",
    15: "GPU is lost",
    16: "GPU requires restart",
    18: "Driver/library version mismatch",
    999: "Unknown Error",
}
# An idle H200 under driver 580.159.04; memory in bytes, power in milliwatts.
_H200 = {
    "nvmlDeviceGetName": "NVIDIA H200",
    "nvmlDeviceGetUUID": "GPU-00000000-1111-2222-3333-444444444444",
    "nvmlDeviceGetSerial": "1650522001234",
    "nvmlDeviceGetPciInfo": {"busId": "00000000:00:06.0"},
    "nvmlDeviceGetMemoryInfo": {"total": 150754820096, "reserved": 645922816, "used": 0},
    "nvmlDeviceGetArchitecture": 9,
    "nvmlDeviceGetCudaComputeCapability": [9, 0],
    "nvmlDeviceGetUtilizationRates": {"gpu": 0, "memory": 0},
    "nvmlDeviceGetPowerUsage": 129850,
    "nvmlDeviceGetEnforcedPowerLimit": 700000,
    "nvmlDeviceGetPowerManagementLimit": 700000,
    "nvmlDeviceGetPowerManagementDefaultLimit": 700000,
    "nvmlDeviceGetTemperatureV": 38,
    "nvmlDeviceGetTemperature": 38,
    "nvmlDeviceGetCurrentClocksEventReasons": 1,
    "nvmlDeviceGetCurrentClocksThrottleReasons": 1,
    "nvmlDeviceGetClockInfo": [1980, 1980, 3201],
    "nvmlDeviceGetMaxClockInfo": [1980, 1980, 3201],
    "nvmlDeviceGetCurrPcieLinkGeneration": 5,
    "nvmlDeviceGetMaxPcieLinkGeneration": 5,
    "nvmlDeviceGetCurrPcieLinkWidth": 16,
    "nvmlDeviceGetMaxPcieLinkWidth": 16,
    "nvmlDeviceGetEccMode": [1, 1],
    "nvmlDeviceGetTotalEccErrors": [0, 0],
    "nvmlDeviceGetRemappedRows": [0, 0, 0, 0],
    "nvmlDeviceGetRetiredPagesPendingStatus": 0,
    "nvmlDeviceGetPersistenceMode": 1,
    "nvmlDeviceGetComputeMode": 0,
    "nvmlDeviceGetMigMode": [0, 0],
    "nvmlDeviceGetGpuFabricInfoV": {"state": 3, "status": 0},
    "nvmlDeviceGetGpuFabricInfo": {"state": 3, "status": 0},
    "nvmlDeviceGetComputeRunningProcesses_v3": [],
    "nvmlDeviceGetComputeRunningProcesses_v2": [],
    "nvmlDeviceGetGraphicsRunningProcesses_v3": [],
    "nvmlDeviceGetGraphicsRunningProcesses_v2": [],
    "nvmlDeviceGetAttributes": {"gpuInstanceSliceCount": 1, "computeInstanceSliceCount": 1, "memorySizeMB": 18176},
    "nvmlDeviceGetFieldValues": 0,
    "nvmlDeviceGetTotalEnergyConsumption": 8123456,
    "nvmlDeviceGetPerformanceState": 0,
    "nvmlDeviceGetPcieThroughput": [3, 5],
    "nvmlDeviceGetProcessUtilization": [],
    "gpm": {},
}


class NVMLError(Exception):
    def __init__(self, value):
        super().__init__()
        self.value = value

    def __str__(self):
        return "RM has detected an NVML/RM version mismatch." if self.value == 18 else _WORDS[self.value]


class c_nvmlGpuFabricInfo_v2_t(ctypes.Structure):
    _fields_ = (("status", ctypes.c_uint), ("state", ctypes.c_uint))


class c_nvmlGpuFabricInfo_t(ctypes.Structure):
    _fields_ = (("status", ctypes.c_uint), ("state", ctypes.c_uint))


def _end(how):
    if how == "hang":
        time.sleep(600)
    if how == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how is not None:
        raise NVMLError(how)


def _ask(handle, function):
    if function in _PLAN.get("missing", []):
        raise NVMLError(13)
    if function in handle.get("errors", {}):
        raise NVMLError(handle["errors"][function])
    if function not in handle and function not in _H200:
        raise NVMLError(3)
    value = handle.get(function, _H200.get(function))
    return SimpleNamespace(**value) if isinstance(value, dict) else value


def nvmlInit():
    _end(_PLAN.get("init"))


def nvmlErrorString(result):
    return _WORDS[result]


def nvmlSystemGetDriverVersion():
    return _PLAN.get("driver", "580.159.04")


def nvmlSystemGetNVMLVersion():
    return "13." + nvmlSystemGetDriverVersion()


def nvmlSystemGetCudaDriverVersion_v2():
    return _PLAN.get("cuda", 13000)


def nvmlDeviceGetCount():
    if _PLAN.get("live"):
        _read_plan()
    return len(_PLAN["cards"])


def nvmlDeviceGetHandleByIndex(index):
    _end(_PLAN["cards"][index].get("handle"))
    return _PLAN["cards"][index]


def nvmlDeviceGetMemoryInfo(handle, version=None):
    memory = _ask(handle, "nvmlDeviceGetMemoryInfo")
    free = memory.total - memory.reserved - memory.used
    if version is None:  # the first version counts what the driver reserves as used
        return SimpleNamespace(total=memory.total, used=memory.used + memory.reserved, free=free)
    _ask({**handle, "nvmlDeviceGetMemoryInfo_v2": True}, "nvmlDeviceGetMemoryInfo_v2")
    return SimpleNamespace(total=memory.total, used=memory.used, reserved=memory.reserved, free=free)


def nvmlDeviceGetCudaComputeCapability(handle):
    return tuple(_ask(handle, "nvmlDeviceGetCudaComputeCapability"))


def nvmlDeviceGetTemperatureV(handle, sensor, version=0x100000C):
    return _ask(handle, "nvmlDeviceGetTemperatureV")


def nvmlDeviceGetTemperature(handle, sensor):
    return _ask(handle, "nvmlDeviceGetTemperature")


def nvmlDeviceGetClockInfo(handle, type):  # noqa: A002 - its real name
    return _ask(handle, "nvmlDeviceGetClockInfo")[type]


def nvmlDeviceGetMaxClockInfo(handle, type):  # noqa: A002 - its real name
    return _ask(handle, "nvmlDeviceGetMaxClockInfo")[type]


def nvmlDeviceGetTotalEccErrors(handle, errorType, counterType):
    return _ask(handle, "nvmlDeviceGetTotalEccErrors")[errorType]


def nvmlDeviceGetGpuFabricInfoV(device, gpuFabricInfo):
    _fill_fabric(_ask(device, "nvmlDeviceGetGpuFabricInfoV"), gpuFabricInfo)


def nvmlDeviceGetGpuFabricInfo(device, gpuFabricInfo):
    _fill_fabric(_ask(device, "nvmlDeviceGetGpuFabricInfo"), gpuFabricInfo)


def _fill_fabric(output, reference):
    reference._obj.state, reference._obj.status = output.state, output.status


def nvmlDeviceGetPcieThroughput(device, counter):
    return _ask(device, "nvmlDeviceGetPcieThroughput")[counter]


def nvmlDeviceGetMaxMigDeviceCount(device):
    return 7


def nvmlDeviceGetMigDeviceHandleByIndex(device, index):
    if index >= len(device.get("mig", [])):
        raise NVMLError(6)
    return device["mig"][index]


def nvmlDeviceGetFieldValues(handle, fieldIds):
    number = _ask(handle, "nvmlDeviceGetFieldValues")
    return [SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(uiVal=number)) for _ in fieldIds]


class _Metric:
    metricId = nvmlReturn = 0
    value = 0.0


class c_nvmlGpmMetricsGet_t:
    def __init__(self):
        self.version = self.numMetrics = 0
        self.sample1 = self.sample2 = None
        self.metrics = [_Metric() for _ in range(477)]


def _gpm(device):
    return device.get("gpm", _H200["gpm"])


def nvmlGpmQueryDeviceSupport(device):
    return SimpleNamespace(isSupportedDevice=int(_gpm(device) is not None))


def nvmlGpmSampleAlloc():
    return SimpleNamespace(card=None, at=0.0)


def nvmlGpmSampleGet(device, gpmSample):
    _ask({"nvmlGpmSampleGet": True, **device}, "nvmlGpmSampleGet")
    gpmSample.card, gpmSample.at = device, time.monotonic()
    return gpmSample


def nvmlGpmMigSampleGet(device, gpuInstanceId, gpmSample):
    _ask({"nvmlGpmMigSampleGet": True, **device}, "nvmlGpmMigSampleGet")
    gpmSample.card, gpmSample.at = device["mig"][gpuInstanceId], time.monotonic()
    return gpmSample


def nvmlGpmMetricsGet(metricsGet):
    if metricsGet.sample2.at - metricsGet.sample1.at < 0.1:
        raise NVMLError(999)
    known = _gpm(metricsGet.sample2.card)
    for metric in metricsGet.metrics[: metricsGet.numMetrics]:
        metric.nvmlReturn = 0 if str(metric.metricId) in known else 3
        metric.value = known.get(str(metric.metricId), 0.0)


def nvmlDeviceGetProcessUtilization(handle, timeStamp):
    samples = [SimpleNamespace(**each) for each in _ask(handle, "nvmlDeviceGetProcessUtilization")]
    newer = [each for each in samples if each.timeStamp > timeStamp]
    if not newer:  # as the driver does
        raise NVMLError(6)
    return newer


def _processes(function):
    def listed(handle):
        return [SimpleNamespace(**each) for each in _ask(handle, function)]

    return listed


nvmlDeviceGetComputeRunningProcesses_v3 = _processes("nvmlDeviceGetComputeRunningProcesses_v3")
nvmlDeviceGetComputeRunningProcesses_v2 = _processes("nvmlDeviceGetComputeRunningProcesses_v2")
nvmlDeviceGetGraphicsRunningProcesses_v3 = _processes("nvmlDeviceGetGraphicsRunningProcesses_v3")
nvmlDeviceGetGraphicsRunningProcesses_v2 = _processes("nvmlDeviceGetGraphicsRunningProcesses_v2")


def _plain(function):
    return lambda handle: _ask(handle, function)


for _name in (
    "nvmlDeviceGetName",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetSerial",
    "nvmlDeviceGetPciInfo",
    "nvmlDeviceGetArchitecture",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetPowerManagementLimit",
    "nvmlDeviceGetPowerManagementDefaultLimit",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
    "nvmlDeviceGetCurrPcieLinkGeneration",
    "nvmlDeviceGetMaxPcieLinkGeneration",
    "nvmlDeviceGetCurrPcieLinkWidth",
    "nvmlDeviceGetMaxPcieLinkWidth",
    "nvmlDeviceGetEccMode",
    "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetRetiredPagesPendingStatus",
    "nvmlDeviceGetPersistenceMode",
    "nvmlDeviceGetComputeMode",
    "nvmlDeviceGetCurrentDriverModel",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetAttributes",
    "nvmlDeviceGetFanSpeed",
    "nvmlDeviceGetGpuInstanceId",
    "nvmlDeviceGetPerformanceState",
    "nvmlDeviceGetTotalEnergyConsumption",
):
    globals()[_name] = _plain(_name)
