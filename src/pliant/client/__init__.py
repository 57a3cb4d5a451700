"""Pliant inside the user's program: ``connect()`` returns the job, the job leases shards. Works without a master too."""

from pliant.client.job import Job, connect
from pliant.client.records import RecordStream
from pliant.client.shards import Shard, ShardStream

__all__ = ["Job", "RecordStream", "Shard", "ShardStream", "connect"]
