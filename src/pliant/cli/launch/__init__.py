"""From options to a running job: its spec, its folder or its ElasticJob, and following it to its end."""
