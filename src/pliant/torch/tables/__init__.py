"""Embedding tables as torch modules: rows on parameter servers, or in this process where there are none."""
