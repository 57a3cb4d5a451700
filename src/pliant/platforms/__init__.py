"""Where nodes run. A platform is a ``Scaler``, a ``NodeWatcher`` and an entry in the registry."""
