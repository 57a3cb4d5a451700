from __future__ import annotations

from tests.torch.conftest import torch_as_it_was

__all__ = ["torch_as_it_was"]
