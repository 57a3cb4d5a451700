"""Evaluation beside training: rounds, model versions, and metrics over all records."""
