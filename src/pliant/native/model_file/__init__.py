"""The model file: its contract, how it is found, copied and loaded, and the model, data and schedule that come out of it."""
