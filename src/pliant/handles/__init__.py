"""A job where it lives: its folder on this machine, or its ElasticJob."""
