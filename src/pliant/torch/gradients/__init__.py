"""The gradients of a step, summed over all units: in floating point, or exact to the last bit."""
