"""Trace files of several formats, each read by one function `read(data, file) -> HostTrace`.

A reader is registered under what its files' names end in (entry points `tfscale.readers`).
"""

from collections.abc import Callable

from tfscale.suite.profiling.table import HostTrace

Reader = Callable[[bytes, str], HostTrace]
