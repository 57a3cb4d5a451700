"""The checks of ``pliant doctor``: of this machine, and of a Kubernetes cluster."""
