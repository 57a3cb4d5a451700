"""Jobs of a Kubernetes cluster for the command line: ``place`` is the seam's other side (see ``cli.places``).

``session`` holds the client in a thread of its own, since the commands are not asynchronous. ``manifest`` makes what is
sent, ``submitting`` sends it, ``following`` follows it, ``pod_output`` shows what Pods wrote, ``checks`` is the doctor.
"""
