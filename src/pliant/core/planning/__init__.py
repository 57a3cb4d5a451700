"""Plans for the resources of a running job: what a generator asks for, and the samples that it plans by."""
