"""Dynamic data sharding: datasets as computed orders, the queue of each, and who holds which shard."""
