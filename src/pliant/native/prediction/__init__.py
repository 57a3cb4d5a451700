"""Prediction: each record once, in order, into one file."""
