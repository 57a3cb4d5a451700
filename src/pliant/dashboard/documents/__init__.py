"""The documents that the page shows: plain JSON values, made of values of ``core`` and ``handles`` by functions without I/O.

Every document is bounded, whatever the job is. Times are seconds since the epoch. Large collections are objects by name, not lists,
so that ``patch`` finds small differences between two versions of a document.
"""
