"""The life of a job as a whole: it ends once, and goes on if somebody resumes it."""

from __future__ import annotations

import pytest

from pliant.core.errors import Conflict
from pliant.core.job import JobBook, Phase


def ended(phase: Phase) -> JobBook:
    book = JobBook()
    book.master_started(1.0)
    book.failed(2.0, node="worker-0", kind="Error", message="no", traceback="", log="")
    book.end(3.0, phase=phase.value, reason="for a test")
    return book


@pytest.mark.parametrize("phase", [Phase.STOPPED, Phase.FAILED])
def test_a_job_that_was_stopped_or_has_failed_is_resumed_and_may_end_in_another_way(phase: Phase) -> None:
    book = ended(phase)
    assert book.resume(4.0)
    assert (book.phase, book.reason, book.ended_at, book.first_failure) == (Phase.RUNNING, "", 0.0, None)
    assert book.end(5.0, phase="Succeeded", reason="done")
    assert (book.phase, book.resumes, book.started_at) == (Phase.SUCCEEDED, 1, 1.0)
    other = JobBook()
    other.restore(book.snapshot())
    assert other.snapshot() == book.snapshot()


def test_a_running_job_is_not_resumed_and_one_that_succeeded_has_nothing_left() -> None:
    assert not JobBook().resume(1.0)
    book = ended(Phase.SUCCEEDED)
    with pytest.raises(Conflict, match="nothing left to do"):
        book.resume(4.0)
    assert book.phase is Phase.SUCCEEDED
