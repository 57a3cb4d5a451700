"""Parameter servers: where the model lives when it is too large, or too shared, for one worker.

The packages, from the top (an import contract holds the order):

- ``server``: the process of a parameter server and its data plane
- ``recovery``: dumps, the log of staged pushes, and the execution of the replicated log of orders
- ``client``: what a worker uses; ``store``: tables and variables in memory, and their updates
- ``wire``: frames, sockets, shared memory
- ``compiled``: loops that need no table, and how numba compiles and caches them
- ``specs`` (what is stored), ``placement`` (where it belongs), ``payloads`` (what is handed around), ``files`` (where files are)

``core/parameters`` makes the decisions, ``master/components/parameters`` carries them out.
"""
