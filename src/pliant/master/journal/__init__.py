"""What survives a master: the journal, where it is stored, the audit of accepted records, and notes on shards."""
