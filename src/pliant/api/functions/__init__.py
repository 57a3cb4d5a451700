"""A function that runs as a program: packed where it is submitted, loaded and called on each worker, its result kept in a file.

``packing`` makes the payload (``references`` finds functions that need no pickle, ``pickling`` sees what the others capture),
``payload`` is its format and every check before anything of it is loaded, ``__main__`` is the program of a worker, ``results``
keeps and reads what it returned. ``values`` is the form without pickle that arguments and results have in common.
"""
