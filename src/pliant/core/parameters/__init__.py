"""Parameter servers as a replicated log: the partition map, seats, orders, dumps and schedules."""
