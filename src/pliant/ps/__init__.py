"""Parameter servers: where the model lives when it is too large, or too shared, for one worker.

``specs`` says what is kept, ``placement`` where each piece of it belongs, ``store`` keeps and updates it (``table`` for
embedding rows, ``dense`` for variables, ``kernels*`` for the compiled loops), ``wire``, ``server`` and ``connection``
carry it between processes. numpy and numba are imported here and nowhere below.
"""
