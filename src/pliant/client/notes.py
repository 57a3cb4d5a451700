"""Notes that workers left with finished shards (``Shard.done(note)``): results of evaluation and prediction."""

from __future__ import annotations

from dataclasses import dataclass

from pliant.client.session import Session
from pliant.rpc import pliant_pb2 as pb


@dataclass(frozen=True, slots=True)
class ShardNote:
    start: int
    end: int
    data: bytes


def read_notes(session: Session, dataset: str) -> list[ShardNote]:
    """Of all finished shards of a dataset, in order."""
    found: list[ShardNote] = []
    while True:
        request = pb.NotesRequest(dataset=dataset, skip=len(found))
        reply = session.call_with_retry(session.master.stubs.shards.GetNotes, request)
        found.extend(ShardNote(note.start, note.end, note.data) for note in reply.notes)
        if not reply.more:
            return found
