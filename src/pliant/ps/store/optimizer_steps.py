"""The numbers of one step of an optimizer, for the compiled loops in ``kernels.steps``.

What depends on the iteration only (bias corrections, decayed rates) is computed here, once per step. The formulas are those of
``torch.optim`` (SGD with momentum and Nesterov, Adagrad, Adam, AMSGrad, AdamW's decay) and, for FTRL, of McMahan et al. as
TensorFlow has them.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pliant.ps.specs import OptimizerSpec

SGD, MOMENTUM, NESTEROV, ADAGRAD, ADAM, AMSGRAD, FTRL = range(7)
_KINDS = {
    "sgd": SGD,
    "momentum": MOMENTUM,
    "nesterov": NESTEROV,
    "adagrad": ADAGRAD,
    "adam": ADAM,
    "amsgrad": AMSGRAD,
    "ftrl": FTRL,
}


def hyper_parameters(spec: OptimizerSpec, scale: float, iteration: int) -> npt.NDArray[np.float64]:
    """What ``steps`` needs for one iteration (counted from 1): kind, rate, weight decay, then the optimizer's own."""
    rate = spec.learning_rate * scale
    kind = _KINDS[spec.kind]
    decay = 0.0 if spec.decoupled else spec.weight_decay
    shrink = 1.0 - rate * spec.weight_decay if spec.decoupled else 1.0
    own: tuple[float, ...] = ()
    if kind in (MOMENTUM, NESTEROV):
        own = (spec.momentum,)
    elif kind == ADAGRAD:
        rate /= 1.0 + (iteration - 1) * spec.learning_rate_decay
        own = (spec.epsilon,)
    elif kind in (ADAM, AMSGRAD):
        rate /= 1.0 - spec.beta1**iteration
        correction = 1.0 / math.sqrt(1.0 - spec.beta2**iteration)
        own = (1.0 - spec.beta1, spec.beta2, 1.0 - spec.beta2, spec.epsilon, correction, shrink)
    elif kind == FTRL:
        rate = max(rate, 1e-30)  # a schedule that reaches 0 must not divide by it
        own = (spec.l1, 2.0 * spec.l2 + spec.beta / rate, -spec.learning_rate_power)
    return np.array((kind, rate, decay, *own), np.float64)
