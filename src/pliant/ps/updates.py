"""One step of an optimizer on floats in memory: the inner loops shared by rows of tables and blocks of variables.

A loop works in place on ``count`` values, with as many floats of each state behind one another. Numbers that depend on the
iteration only (bias corrections, decayed rates) are computed once per step by ``hyper_parameters``. The formulas are those of
``torch.optim`` (SGD with momentum and Nesterov, Adagrad, Adam, AMSGrad, AdamW's decay) and, for FTRL, of McMahan et al. as
TensorFlow has them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from pliant.ps.memory import carray, compiled, pointer
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
    """What ``step`` needs for one iteration (counted from 1): kind, rate, weight decay, then the optimizer's own."""
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
        own = (spec.beta1, spec.beta2, spec.epsilon, 1.0 / math.sqrt(1.0 - spec.beta2**iteration), shrink)
    elif kind == FTRL:
        rate = max(rate, 1e-30)  # a schedule that reaches 0 must not divide by it
        own = (spec.l1, 2.0 * spec.l2 + spec.beta / rate, -spec.learning_rate_power)
    return np.array((kind, rate, decay, *own), np.float64)


@compiled
def step(value: Any, gradient: Any, state: Any, count: Any, weight: Any, hyper: Any) -> None:
    """One step on ``count`` floats at the address ``value``, with ``weight`` times the gradient at ``gradient``."""
    kind = int(hyper[0])
    rate = np.float32(hyper[1])
    decay = np.float32(hyper[2])
    w = np.float32(weight)
    p = carray(pointer(value), (count,), np.float32)
    g = carray(pointer(gradient), (count,), np.float32)
    one = np.float32(1)
    if kind == SGD:
        for i in range(count):
            p[i] -= rate * (w * g[i] + decay * p[i])
        return
    a = carray(pointer(state), (count,), np.float32)
    if kind == MOMENTUM:
        momentum = np.float32(hyper[3])
        for i in range(count):
            a[i] = momentum * a[i] + (w * g[i] + decay * p[i])
            p[i] -= rate * a[i]
    elif kind == NESTEROV:
        momentum = np.float32(hyper[3])
        for i in range(count):
            d = w * g[i] + decay * p[i]
            a[i] = momentum * a[i] + d
            p[i] -= rate * (d + momentum * a[i])
    elif kind == ADAGRAD:
        epsilon = np.float32(hyper[3])
        for i in range(count):
            d = w * g[i] + decay * p[i]
            a[i] += d * d
            p[i] -= rate * d / (np.sqrt(a[i]) + epsilon)
    elif kind == FTRL:
        _ftrl(p, g, a, carray(pointer(state + 4 * count), (count,), np.float32), w, hyper)
    else:
        b = carray(pointer(state + 4 * count), (count,), np.float32)
        beta1, beta2, epsilon = np.float32(hyper[3]), np.float32(hyper[4]), np.float32(hyper[5])
        correction, shrink = np.float32(hyper[6]), np.float32(hyper[7])
        if kind == ADAM:
            for i in range(count):
                q = p[i] * shrink
                d = w * g[i] + decay * q
                a[i] += (one - beta1) * (d - a[i])
                b[i] = beta2 * b[i] + (one - beta2) * d * d
                p[i] = q - rate * a[i] / (np.sqrt(b[i]) * correction + epsilon)
        else:
            c = carray(pointer(state + 8 * count), (count,), np.float32)
            for i in range(count):
                q = p[i] * shrink
                d = w * g[i] + decay * q
                a[i] += (one - beta1) * (d - a[i])
                b[i] = beta2 * b[i] + (one - beta2) * d * d
                c[i] = max(c[i], b[i])
                p[i] = q - rate * a[i] / (np.sqrt(c[i]) * correction + epsilon)


@compiled
def _ftrl(p: Any, g: Any, accumulator: Any, linear: Any, w: Any, hyper: Any) -> None:
    """In double precision: the new value is a quotient of sums that grow with the number of steps."""
    rate, decay, l1, ridge, power = hyper[1], hyper[2], hyper[3], hyper[4], hyper[5]
    for i in range(p.size):
        d = float(w) * g[i] + decay * p[i]
        old = float(accumulator[i])
        new = old + d * d
        if power == 0.5:
            old, power_of_new = np.sqrt(old), np.sqrt(new)
        else:
            old, power_of_new = old**power, new**power
        z = linear[i] + d - (power_of_new - old) / rate * p[i]
        accumulator[i] = new
        linear[i] = z
        if abs(z) > l1:
            p[i] = ((l1 if z > 0 else -l1) - z) / (power_of_new / rate + ridge)
        else:
            p[i] = 0.0
