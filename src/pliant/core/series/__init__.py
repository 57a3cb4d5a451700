"""What a job's charts are drawn of: values over time and steps, in constant memory (``curve``, ``book``, ``job_series``)."""
