"""From what somebody wants to a job that runs: its spec, its folder or its ElasticJob, and its first master.

The command line (``cli/launch``) and the Python API (``api``) both launch jobs by it; neither follows a job here.
"""
