"""Jobs of a Kubernetes cluster for the command line: ``job_handle`` is the handle of an ElasticJob.

``session`` runs the asynchronous client in a thread of its own, since commands are plain functions; ``resource_status`` reads an
ElasticJob's status, ``pod_output`` shows what Pods wrote. Creating jobs is in ``cli.launch``.
"""
