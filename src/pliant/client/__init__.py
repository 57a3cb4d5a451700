"""Pliant inside the user's program: ``connect()`` gives the job, the job gives shards. Works alone too."""

from pliant.client.job import Job, connect
from pliant.client.records import RecordStream
from pliant.client.shards import Shard, ShardStream

__all__ = ["Job", "RecordStream", "Shard", "ShardStream", "connect"]
