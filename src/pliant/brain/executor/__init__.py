"""The Brain's algorithm executor: runs algorithms in processes of their own, so that a bad one harms nobody and is named.

``algorithm_executor.py`` is what others use. ``child.py`` is the program of the processes; this package imports nothing by itself,
so that a process starts with no more than it needs.
"""
