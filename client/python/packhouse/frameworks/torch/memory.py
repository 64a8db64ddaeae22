"""A CUDA device's memory, for `Client.feedback`."""

from __future__ import annotations

from typing import Any

import torch

from packhouse.stored.feedback import ProcessMemory


class TorchMemory:
    """The most bytes that torch's allocator had in use on a device; on the CPU, the process's."""

    def __init__(self, device: Any = None) -> None:
        """`device`: as torch names it; None: the current CUDA device, or the CPU without one."""
        if device is None:
            device = "cuda" if torch.cuda.is_available() else "cpu"
        self._device = torch.device(device)
        self._process = ProcessMemory() if self._device.type != "cuda" else None

    def reset(self) -> None:
        """Before a step."""
        if self._process is not None:
            self._process.reset()
        else:
            torch.cuda.reset_peak_memory_stats(self._device)

    def peak_bytes(self) -> int:
        """After it."""
        if self._process is not None:
            return self._process.peak_bytes()
        return int(torch.cuda.max_memory_allocated(self._device))
