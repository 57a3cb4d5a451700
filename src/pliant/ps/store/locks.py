"""The locks of a store, in the order in which they are taken."""

from __future__ import annotations

import threading

from pliant.ps.store.rwlock import ReadWriteLock


class StoreLocks:
    def __init__(self) -> None:
        self.orders = threading.Lock()  # one change of the state at a time
        self.state = ReadWriteLock()  # tables, blocks, iteration
        self.staging = threading.Lock()  # staged pushes
        self.holding = threading.Lock()  # who holds which block's value, among readers
