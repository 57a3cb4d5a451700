"""Nodes as Pods: what the master, the operator and the command line share about Kubernetes."""
