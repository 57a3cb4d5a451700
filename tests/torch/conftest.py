from __future__ import annotations

from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def torch_as_it_was() -> Iterator[None]:
    """A deterministic Trainer changes settings of the whole process."""
    threads, mode = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    torch.set_deterministic_debug_mode(mode)
