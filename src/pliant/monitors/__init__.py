"""Cluster monitors: small programs that tell the Brain what a platform shows, its machines and the nodes on them.

``base`` is the contract, ``local`` and ``kubernetes`` keep it, ``registry`` finds one by name; ``reporter`` sends what one sees.
"""
