"""What goes wrong with an engine in hand, as types both programs tell apart.

CudaError            (passing)  the device failed: nothing on it can be trusted until the process starts anew
DeviceMemoryError    (final)    the slice has not the memory the engine takes
EngineRefusedError   (final)    TensorRT does not take the file: another version, another device, damaged
InputRefusedError    (final)    these inputs do not fit the engine; it is unharmed
EngineFailedError    (final)    TensorRT refused to run the engine on inputs that fit
"""

from enginery_store.errors import FinalError, PassingError
from enginery_store.reasons import Reason


class CudaError(PassingError):
    """A call of CUDA failed. Most of its errors stay until the process ends."""

    reason = Reason.DEVICE_UNAVAILABLE


class DeviceMemoryError(FinalError):
    """The device has too little free memory."""

    reason = Reason.BUILD_OUT_OF_MEMORY


class EngineRefusedError(FinalError):
    """The file is no engine that this library runs on this device; the message holds the library's own words."""

    reason = Reason.ENGINE_LOAD_FAILED


class InputRefusedError(FinalError):
    """Names, types or shapes of inputs are not the engine's; the message names the input."""

    reason = Reason.INVALID_SHAPES


class EngineFailedError(FinalError):
    """The engine did not run."""

    reason = Reason.BUILD_FAILED
