from __future__ import annotations

import json
import time
import tracemalloc
from typing import Any

import pytest

from pliant.core.errors import Conflict, InvalidRequest, NotFound, SessionExpired
from pliant.core.shards.book import MAX_LEASES_PER_CALL, ShardBook
from pliant.core.shards.leases import Answer, Availability


class Worker:
    """A program with one session, numbering its requests."""

    def __init__(self, book: ShardBook, name: str = "a", node: str = "worker-0", incarnation: int = 0) -> None:
        self.book, self.name, self.request = book, name, 0
        book.open_session(0.0, session=name, node=node, incarnation=incarnation)

    def ask(self, want: int = 0, *, now: float = 0.0, dataset: str | None = "train", **reports: Any) -> Answer:
        self.request += 1
        return self.book.exchange(now, session=self.name, request=self.request, dataset=dataset, want=want, **reports)

    def lease(self, want: int, *, now: float = 0.0, dataset: str = "train") -> list[int]:
        return [lease.number for lease in self.ask(want, now=now, dataset=dataset).leases]

    def finish_all(self, dataset: str = "train") -> list[tuple[int, int, int, int]]:
        """Work to the end; gives (epoch, start, begin, end) of what counted."""
        done: list[int] = []
        accepted = []
        while True:
            answer = self.ask(3, dataset=dataset, done=done)
            accepted += [(a.lease.shard.epoch, a.lease.extent.start, a.begin, a.end) for a in answer.accepted]
            done = [lease.number for lease in answer.leases]
            if not done:
                assert answer.availability is Availability.END
                return accepted


def book_of(**fields: Any) -> ShardBook:
    book = ShardBook()
    define(book, **fields)
    return book


def define(book: ShardBook, **fields: Any) -> None:
    book.create(0.0, dataset={"name": "train", "shard_size": 10, **fields})


def ordinals(answer: Answer) -> list[int]:
    return [lease.shard.ordinal for lease in answer.leases]


# --- datasets


def test_a_dataset_can_be_defined_again_the_same_way_only() -> None:
    book = book_of(size=100, indices=[])
    assert book.create(1.0, dataset={"name": "train", "shard_size": 10, "size": 100}) is False
    with pytest.raises(Conflict, match="already exists with size 100, defined by the job; this program gave size 200"):
        book.create(1.0, dataset={"name": "train", "shard_size": 10, "size": 200})


def test_an_unknown_dataset_is_named_with_those_that_are_known() -> None:
    with pytest.raises(NotFound, match=r"dataset 'test' not found(.|\n)*train"):
        book_of(size=1).availability("test")


def test_a_billion_shards_are_created_at_once_in_constant_memory_and_a_small_checkpoint() -> None:
    tracemalloc.start()
    try:
        began = time.perf_counter()
        book = book_of(size=10**12, shard_size=1000, epochs=5, shuffle=True)
        worker = Worker(book)
        held = worker.lease(50)
        for _ in range(200):
            held = [lease.number for lease in worker.ask(50, done=held).leases]
        saved = json.dumps(book.checkpoint())
        elapsed = time.perf_counter() - began
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert book.queue("train").shards_per_epoch == 10**9
    assert book.queue("train").finished_shards == 10_000
    assert len(saved) < 2000
    assert peak < 1_000_000
    assert elapsed < 10


def test_a_lease_of_the_last_of_a_billion_shards_costs_no_more_than_the_first() -> None:
    book = book_of(size=10**12, shard_size=1000, shuffle=True)
    book.queue("train").cursor = 10**9 - 1
    answer = Worker(book).ask(5)
    assert len(answer.leases) == 1
    assert answer.leases[0].size == 1000
    assert answer.availability is Availability.WAIT


def test_a_dataset_is_dropped_only_when_nobody_needs_it() -> None:
    book = book_of(size=10)
    with pytest.raises(Conflict, match="still has unprocessed shards"):
        book.drop(0.0, dataset="train")
    worker = Worker(book)
    worker.finish_all()
    book.drop(0.0, dataset="train")
    assert book.queues() == []


def test_training_data_is_not_dropped_while_train_end_shards_wait_for_it() -> None:
    book = book_of(size=10)
    define(book, name="end", size=1, type="train_end")
    worker = Worker(book)
    worker.finish_all()
    with pytest.raises(Conflict, match="'end'"):
        book.drop(0.0, dataset="train")
    worker.finish_all("end")
    book.drop(0.0, dataset="train")
    assert book.availability("end") is Availability.END


# --- leases and reports


def test_leases_are_numbered_from_one_and_say_what_to_read() -> None:
    leases = Worker(book_of(size=25)).ask(5).leases
    assert [(x.number, x.dataset, x.extent.start, x.extent.end, x.size) for x in leases] == [
        (1, "train", 0, 10, 10),
        (2, "train", 10, 20, 10),
        (3, "train", 20, 25, 5),
    ]


def test_explicit_indices_travel_with_the_lease() -> None:
    leases = Worker(book_of(indices=[7, 7, 1], shard_size=2)).ask(5).leases
    assert [lease.indices for lease in leases] == [(7, 7), (1,)]


def test_availability_tells_more_wait_and_end_apart() -> None:
    book = book_of(size=20)
    worker = Worker(book)
    assert book.availability("train") is Availability.MORE
    assert worker.ask(1).availability is Availability.MORE
    assert worker.ask(1).availability is Availability.WAIT
    assert worker.ask(1, done=[1, 2]).availability is Availability.END
    assert book.complete()


def test_a_dataset_of_nothing_ends_at_once() -> None:
    answer = Worker(book_of(size=0, epochs=3)).ask(5)
    assert (answer.leases, answer.availability) == ((), Availability.END)


def test_a_request_sent_again_changes_nothing_and_gets_the_same_answer() -> None:
    book = book_of(size=100)
    worker = Worker(book)
    worker.lease(2)
    first = worker.ask(2, done=[1])
    before = book.snapshot()
    worker.request -= 1
    again = worker.ask(2, done=[1])
    assert again.repeated
    assert (again.leases, again.refused, again.availability) == (first.leases, first.refused, first.availability)
    assert again.accepted == ()
    assert book.snapshot() == before


def test_the_same_answer_is_given_after_a_restart_of_the_master() -> None:
    book = book_of(size=100, shuffle=True)
    worker = Worker(book)
    first = worker.ask(3)
    worker.book = restored(book)
    worker.request -= 1
    assert worker.ask(3).leases == first.leases


def test_an_older_request_is_refused() -> None:
    worker = Worker(book_of(size=100))
    worker.lease(1)
    worker.lease(1)
    worker.request = 0
    with pytest.raises(InvalidRequest, match="older"):
        worker.ask(1)


def test_a_first_request_numbered_0_is_refused_and_not_taken_for_a_repetition() -> None:
    worker = Worker(book_of(size=100))
    worker.request = -1
    with pytest.raises(InvalidRequest, match="numbered from 1"):
        worker.ask(1)


def test_a_report_of_something_finished_is_accepted_in_silence() -> None:
    worker = Worker(book_of(size=100))
    worker.lease(2)
    worker.ask(done=[1])
    answer = worker.ask(done=[1], progress=[[2, 3]])
    assert answer.refused == ()
    assert [(a.lease.number, a.begin, a.end) for a in answer.accepted] == [(2, 0, 3)]


def test_records_count_once_however_progress_is_reported() -> None:
    book = book_of(size=20)
    worker = Worker(book)
    worker.lease(2)
    spans = []
    for reports in ({"progress": [[1, 4]]}, {"progress": [[1, 2]]}, {"progress": [[1, 9]]}, {"done": [1]}):
        spans += [(a.begin, a.end) for a in worker.ask(**reports).accepted]
    assert spans == [(0, 4), (4, 9), (9, 10)]
    assert book.queue("train").finished_records == 10


def test_progress_to_the_last_record_finishes_the_shard() -> None:
    book = book_of(size=20, epochs=2, max_failures=1)
    worker = Worker(book)
    worker.lease(2)
    worker.ask(progress=[[1, 10], [2, 10]])
    queue = book.queue("train")
    assert (queue.finished_shards, queue.epochs_done, queue.open_epochs) == (2, 1, {})
    assert worker.ask(done=[1, 2]).refused == ()
    book.close_session(1.0, session="a", blame="crashed after the last record")
    assert (queue.finished_shards, list(queue.returned), queue.parked, queue.open_epochs) == (2, [], [], {})


def test_done_may_come_in_any_order() -> None:
    book = book_of(size=40)
    worker = Worker(book)
    worker.lease(4)
    assert [a.lease.number for a in worker.ask(done=[4, 2, 3]).accepted] == [4, 2, 3]
    assert book.queue("train").finished_records == 30


def test_done_after_failed_is_refused_since_someone_else_may_do_it_now() -> None:
    book = book_of(size=10)
    worker, other = Worker(book), Worker(book, "b")
    worker.lease(1)
    worker.ask(failed=[[1, "bad label"]])
    assert len(other.lease(1)) == 1
    answer = worker.ask(done=[1])
    assert (answer.refused, answer.accepted) == ((1,), ())


def test_done_after_released_is_refused_since_someone_else_may_do_it_now() -> None:
    book = book_of(size=10)
    worker, other = Worker(book), Worker(book, "b")
    worker.lease(1)
    worker.ask(released=[1])
    assert len(other.lease(1)) == 1
    answer = worker.ask(done=[1])
    assert (answer.refused, answer.accepted) == ((1,), ())


def test_released_leases_come_back_first_in_their_order_and_without_blame() -> None:
    book = book_of(size=50, max_failures=1, max_timeouts=1)
    worker = Worker(book)
    worker.lease(3)
    worker.ask(progress=[[2, 4]])
    worker.ask(released=[1, 2, 3])
    leases = worker.ask(4).leases
    assert [(x.shard.ordinal, x.shard.offset, x.shard.failures) for x in leases] == [
        (0, 0, 0),
        (1, 4, 0),
        (2, 0, 0),
        (3, 0, 0),
    ]


@pytest.mark.parametrize(
    "reports",
    [
        {"released": [3]},
        {"done": [1], "released": [1]},
        {"done": [0]},
        {"done": [-1]},
        {"done": [3]},
        {"done": [1 << 80]},
        {"done": [1, 1]},
        {"done": [1], "progress": [[1, 3]]},
        {"progress": [[1, 11]]},
        {"progress": [[1, -1]]},
        {"failed": [[3, "x"]]},
        {"want": -1},
        {"want": MAX_LEASES_PER_CALL + 1},
    ],
    ids=str,
)
def test_an_absurd_request_is_refused_whole_and_leaves_no_trace(reports: dict[str, Any]) -> None:
    book = book_of(size=100)
    worker = Worker(book)
    worker.lease(2)
    before = book.snapshot()
    with pytest.raises(InvalidRequest):
        worker.ask(**{"done": [2], **reports})
    assert book.snapshot() == before


def test_a_report_to_an_unknown_dataset_leaves_no_trace() -> None:
    book = book_of(size=100)
    worker = Worker(book)
    worker.lease(2)
    before = book.snapshot()
    with pytest.raises(NotFound):
        worker.ask(1, dataset="validation", done=[1])
    assert book.snapshot() == before


# --- those who leave


def test_only_the_unreported_rest_of_a_dead_worker_is_queued_again() -> None:
    book = book_of(size=20)
    dead, other = Worker(book), Worker(book, "b", "worker-1")
    dead.lease(2)
    dead.ask(progress=[[1, 7]])
    assert book.close_node(5.0, node="worker-0", incarnation=None) == ["a"]
    assert other.finish_all() == [(0, 0, 7, 10), (0, 10, 0, 10)]
    assert book.queue("train").finished_records == 20


def test_a_closed_session_is_told_to_open_a_new_one_and_changes_nothing() -> None:
    book = book_of(size=20)
    worker = Worker(book)
    worker.lease(2)
    book.close_session(1.0, session="a")
    before = book.snapshot()
    with pytest.raises(SessionExpired):
        worker.ask(done=[1])
    assert book.snapshot() == before
    assert before["sessions"] == {}


def test_closing_a_session_twice_is_the_same_as_once() -> None:
    book = book_of(size=20)
    Worker(book).lease(2)
    assert book.close_session(1.0, session="a") == 2
    assert book.close_session(1.0, session="a") == 0


def test_opening_a_session_twice_keeps_what_it_holds() -> None:
    book = book_of(size=20)
    Worker(book).lease(2)
    before = book.snapshot()
    book.open_session(1.0, session="a", node="worker-0", incarnation=0)
    assert book.snapshot() == before


def test_only_earlier_runs_of_a_program_are_closed_by_its_incarnation() -> None:
    book = book_of(size=20)
    for incarnation in range(3):
        Worker(book, f"run-{incarnation}", incarnation=incarnation)
    Worker(book, "other", "worker-1")
    assert book.close_node(1.0, node="worker-0", incarnation=1) == ["run-0", "run-1"]
    assert book.sessions() == ["run-2", "other"]
    assert book.node_of("other") == "worker-1"
    assert not book.has_session("run-0")


def test_returned_pieces_go_first_and_in_their_order() -> None:
    book = book_of(size=100)
    gone, other = Worker(book), Worker(book, "b")
    gone.lease(3)
    other.lease(2)
    book.close_session(1.0, session="a")
    assert ordinals(other.ask(5)) == [0, 1, 2, 5, 6]


def test_a_blamed_shard_is_parked_after_max_failures_and_only_the_head_is_blamed() -> None:
    book = book_of(size=30, max_failures=2)
    for run in range(2):
        crashing = Worker(book, f"run-{run}")
        leases = {lease.shard.ordinal: lease.number for lease in crashing.ask(3).leases}
        crashing.ask(done=[], progress=[])
        order = sorted(leases, key=leases.__getitem__)
        assert order == ([0, 1, 2] if run == 0 else [1, 2, 0])
        if run == 1:
            crashing.ask(done=[leases[1], leases[2]])
        book.close_session(1.0, session=f"run-{run}", blame=f"crash {run}")
    parked = book.queue("train").parked
    assert [(p.shard.ordinal, p.shard.failures, p.message) for p in parked] == [(0, 2, "crash 1")]
    assert book.complete()
    assert book.queue("train").finished_records == 20


def test_a_crash_blames_the_head_of_each_dataset() -> None:
    book = book_of(size=30)
    define(book, name="eval", size=30, type="eval")
    worker = Worker(book)
    worker.lease(2)
    worker.lease(2, dataset="eval")
    book.close_session(1.0, session="a", blame="crash")
    for name in ("train", "eval"):
        assert [(p.ordinal, p.failures) for p in book.queue(name).returned] == [(1, 0), (0, 1)]


def test_a_preemption_never_counts() -> None:
    book = book_of(size=10, max_failures=1, max_timeouts=1)
    for run in range(50):
        Worker(book, f"run-{run}").lease(1)
        book.close_node(1.0, node="worker-0", incarnation=None)
    assert book.queue("train").parked == []
    assert Worker(book, "last").finish_all() == [(0, 0, 0, 10)]


def test_a_shard_reported_as_failed_is_parked_with_its_last_message() -> None:
    book = book_of(size=20, max_failures=2)
    worker = Worker(book)
    for message in ("first", "second"):
        number = worker.ask(1).leases[0].number
        worker.ask(failed=[[number, message]])
    parked = book.queue("train").parked[0]
    assert (parked.message, parked.extent.start, parked.extent.end) == ("second", 0, 10)
    assert worker.finish_all() == [(0, 10, 0, 10)]


def test_what_a_parked_shard_had_done_stays_counted() -> None:
    book = book_of(size=10, max_failures=1)
    worker = Worker(book)
    worker.lease(1)
    worker.ask(progress=[[1, 4]])
    worker.ask(failed=[[1, "record 4 is broken"]])
    queue = book.queue("train")
    assert (queue.finished_records, queue.parked[0].shard.offset) == (4, 4)


# --- time-outs


def test_a_head_is_overdue_after_the_floor_without_any_report() -> None:
    book = book_of(size=100, lease_floor=60)
    worker = Worker(book)
    worker.lease(3, now=0.0)
    assert book.overdue(60.0) == []
    found = book.overdue(61.0)
    assert [(o.session, o.lease, o.silent, o.allowed) for o in found] == [("a", 1, 61.0, 60.0)]
    worker.ask(now=61.0, progress=[[1, 1]])
    assert book.overdue(121.0) == []


def test_leases_behind_the_head_wait_without_a_clock() -> None:
    book = book_of(size=100, lease_floor=60)
    worker = Worker(book)
    worker.lease(3, now=0.0)
    worker.ask(now=15.0, done=[1])
    assert book.overdue(75.0) == []
    assert [o.lease for o in book.overdue(76.0)] == [2]


def test_the_time_out_follows_the_longest_shard_seen_but_not_below_the_floor() -> None:
    book = book_of(size=100, lease_floor=60)
    worker, queue = Worker(book), book.queue("train")
    worker.lease(3, now=0.0)
    worker.ask(now=10.0, done=[1])
    assert queue.lease_timeout() == 60.0
    worker.ask(now=60.0, done=[2])
    assert queue.lease_timeout() == 150.0
    worker.ask(now=61.0, done=[3])
    assert queue.lease_timeout() == 150.0


def test_an_expired_session_loses_its_leases_and_may_go_on() -> None:
    book = book_of(size=50)
    worker = Worker(book)
    worker.lease(3)
    assert book.expire(400.0, session="a", dataset="train") == 3
    assert [(p.ordinal, p.timeouts) for p in book.queue("train").returned] == [(1, 0), (2, 0), (0, 1)]
    answer = worker.ask(1, now=401.0, done=[1], progress=[[2, 5]])
    assert (answer.refused, answer.accepted) == ((1, 2), ())
    assert ordinals(answer) == [1]
    assert worker.ask(now=402.0, done=[4]).refused == ()


def test_only_the_leases_of_the_stuck_dataset_are_taken_back() -> None:
    book = book_of(size=50)
    define(book, name="eval", size=50, type="eval")
    worker = Worker(book)
    worker.lease(1)
    worker.lease(1, dataset="eval")
    book.expire(400.0, session="a", dataset="train")
    assert worker.ask(now=401.0, done=[1, 2]).refused == (1,)


def test_a_shard_that_times_out_too_often_is_parked() -> None:
    book = book_of(size=10, max_timeouts=3, max_failures=1)
    worker = Worker(book)
    for turn in range(3):
        worker.ask(1, now=1000.0 * turn, waiting=True)
        book.expire(1000.0 * turn + 500, session="a", dataset="train")
    assert book.queue("train").parked[0].message == "no report from worker-0 for 500 s"


def test_a_report_that_comes_too_late_doubles_the_time_out_at_most() -> None:
    book = book_of(size=100, lease_floor=60)
    worker = Worker(book)
    worker.lease(1, now=0.0)
    book.expire(61.0, session="a", dataset="train")
    assert book.queue("train").lease_timeout() == 60.0
    worker.ask(now=100_000.0, done=[1])
    assert book.queue("train").lease_timeout() == pytest.approx(120.0)


def test_many_late_reports_of_one_time_out_teach_no_more_than_one() -> None:
    book = book_of(size=1000, lease_floor=60)
    worker = Worker(book)
    held = worker.lease(64, now=0.0)
    book.expire(61.0, session="a", dataset="train")
    for turn in range(5):
        worker.ask(now=10_000.0 * (turn + 1), done=held)
    assert book.queue("train").lease_timeout() == pytest.approx(120.0)


def test_a_shard_that_takes_long_is_given_the_time_it_needs_before_it_is_parked() -> None:
    book = book_of(size=10, lease_floor=60)
    worker, now = Worker(book), 0.0
    for _ in range(10):
        number = worker.ask(1, now=now).leases[0].number
        due = now + 1000.0
        for late in book.overdue(due):
            book.expire(now + late.allowed, session="a", dataset="train")
        now = due
        if not worker.ask(now=now, done=[number]).refused:
            break
    assert book.complete()
    assert book.queue("train").parked == []


def test_a_late_report_for_a_dropped_dataset_is_refused_in_peace() -> None:
    book = book_of(size=10, max_timeouts=1)
    worker = Worker(book)
    worker.lease(1)
    book.expire(400.0, session="a", dataset="train")
    book.drop(401.0, dataset="train")
    assert worker.ask(dataset=None, done=[1]).refused == (1,)


# --- types


def test_train_end_shards_come_only_after_all_training_is_done() -> None:
    book = book_of(size=20)
    define(book, name="more", stream=True)
    define(book, name="end", size=1, type="train_end")
    worker = Worker(book)
    assert worker.ask(1, dataset="end").availability is Availability.WAIT
    worker.finish_all()
    assert worker.ask(1, dataset="end").leases == ()
    book.grow(1.0, dataset="more", records=3, close=True)
    number = worker.lease(1, dataset="more")[0]
    assert worker.ask(1, dataset="end").leases == ()
    answer = worker.ask(1, dataset="end", done=[number])
    assert len(answer.leases) == 1
    assert not book.complete()
    assert worker.ask(1, dataset="end", done=[answer.leases[0].number]).availability is Availability.END


def test_train_end_shards_do_not_wait_for_evaluation_or_parked_shards() -> None:
    book = book_of(size=10, max_failures=1)
    define(book, name="eval", size=20, type="eval")
    define(book, name="end", size=1, type="train_end")
    worker = Worker(book)
    worker.lease(1)
    worker.ask(failed=[[1, "no"]])
    assert book.availability("end") is Availability.MORE


def test_a_finished_train_end_has_ended_even_if_training_starts_again() -> None:
    book = book_of(size=10)
    define(book, name="end", size=1, type="train_end")
    worker = Worker(book)
    worker.finish_all()
    worker.finish_all("end")
    define(book, name="second", size=10)
    assert book.availability("end") is Availability.END


# --- checkpoints and restarts


def restored(book: ShardBook) -> ShardBook:
    again = ShardBook()
    again.restore_definitions(json.loads(json.dumps(book.definitions())))
    again.restore(json.loads(json.dumps(book.snapshot())))
    return again


def saved(book: ShardBook) -> dict[str, Any]:
    state: dict[str, Any] = json.loads(json.dumps(book.checkpoint()))
    return state


SHUFFLED: dict[str, Any] = {"size": 95, "epochs": 2, "shuffle": True, "seed": 3, "max_failures": 1}


def test_another_job_continues_from_a_checkpoint_with_what_was_in_work() -> None:
    first = book_of(**SHUFFLED)
    a, b = Worker(first), Worker(first, "b")
    counted = a.ask(4).accepted
    b.lease(3)
    counted += a.ask(done=[2], progress=[[1, 6]]).accepted
    counted += b.ask(failed=[[1, "broken"]], progress=[[2, 1]]).accepted
    second = book_of(**SHUFFLED)
    assert second.restore_checkpoint(9.0, checkpoint=saved(first)) == ["train"]
    before = [(x.lease.shard.epoch, x.lease.extent.start, x.begin, x.end) for x in counted]
    after = Worker(second).finish_all()
    records = sorted((e, start + i) for e, start, begin, end in before + after for i in range(begin, end))
    parked = second.queue("train").parked[0]
    missing = {(parked.shard.epoch, r) for r in range(parked.extent.start, parked.extent.end)}
    assert records == sorted({(e, r) for e in (0, 1) for r in range(95)} - missing)
    assert second.queue("train").finished_records == len(records)


def test_a_checkpoint_does_not_disturb_those_at_work() -> None:
    book = book_of(**SHUFFLED)
    worker = Worker(book)
    worker.lease(4)
    before = book.snapshot()
    book.checkpoint()
    assert book.snapshot() == before


def test_a_checkpoint_grows_with_what_is_in_flight_and_not_with_what_is_done() -> None:
    book = book_of(size=10**12, shard_size=1000, shuffle=True)
    worker = Worker(book)
    held = worker.lease(4000)
    early = len(json.dumps(book.checkpoint()))
    for _ in range(5):
        held = [lease.number for lease in worker.ask(4000, done=held).leases]
    assert len(json.dumps(book.checkpoint())) < early + 100 < 2000


def test_a_checkpoint_of_another_definition_is_refused() -> None:
    other = book_of(**{**SHUFFLED, "seed": 4})
    before = other.snapshot()
    with pytest.raises(Conflict, match="seed: 3 in the checkpoint, 4 in this job"):
        other.restore_checkpoint(1.0, checkpoint=saved(book_of(**SHUFFLED)))
    assert other.snapshot() == before


def test_a_checkpoint_of_an_unknown_dataset_is_refused() -> None:
    with pytest.raises(NotFound):
        ShardBook().restore_checkpoint(1.0, checkpoint=saved(book_of(**SHUFFLED)))


def test_a_checkpoint_is_not_restored_under_those_at_work() -> None:
    book = book_of(**SHUFFLED)
    Worker(book).lease(1)
    with pytest.raises(Conflict, match="has already started"):
        book.restore_checkpoint(1.0, checkpoint=saved(book))


def test_a_checkpoint_of_another_version_is_refused() -> None:
    book = book_of(**SHUFFLED)
    with pytest.raises(InvalidRequest, match="version 1"):
        book.restore_checkpoint(1.0, checkpoint={**saved(book), "version": 1})


@pytest.mark.parametrize("lost", ["cursor", "returned", "parked", "open_epochs", "slowest_s"])
def test_a_checkpoint_that_lost_something_is_refused_and_nothing_is_damaged(lost: str) -> None:
    book = book_of(**SHUFFLED)
    define(book, name="eval", size=5)
    checkpoint = saved(book)
    checkpoint["datasets"]["train"]["state"]["cursor"] = 0
    del checkpoint["datasets"]["eval"]["state"][lost]
    before = book.snapshot()
    with pytest.raises(InvalidRequest, match="'eval' is corrupt"):
        book.restore_checkpoint(1.0, checkpoint=checkpoint)
    assert book.snapshot() == before


def test_a_checkpoint_whose_accounts_do_not_add_up_is_refused() -> None:
    first = book_of(**SHUFFLED)
    Worker(first).lease(3)
    checkpoint = saved(first)
    checkpoint["datasets"]["train"]["state"]["returned"] = [[0, 0, 2]]
    with pytest.raises(InvalidRequest, match="invalid saved state"):
        book_of(**SHUFFLED).restore_checkpoint(1.0, checkpoint=checkpoint)


def test_a_restored_book_refuses_and_accepts_what_the_first_one_would() -> None:
    book = book_of(size=100, shuffle=True)
    worker = Worker(book)
    worker.lease(3)
    worker.ask(done=[2], progress=[[1, 5]])
    book.expire(10.0, session="a", dataset="train")
    worker.ask(2, now=11.0, waiting=True)
    again = restored(book)
    assert again.snapshot() == book.snapshot()
    worker.book = again
    answer = worker.ask(now=12.0, done=[1, 2, 3, 4])
    assert answer.refused == (1, 3)
    assert [a.lease.number for a in answer.accepted] == [4]


def test_a_dataset_that_is_ended_while_its_last_shard_is_out_does_not_hand_it_out_again() -> None:
    book = book_of(size=10)
    worker = Worker(book)
    (lease,) = worker.lease(1)
    assert book.end(0.0, dataset="train")
    assert not book.end(0.0, dataset="train"), "it is over already"
    assert not book.queue("train").complete, "what is out may still be done"
    assert worker.ask(1, released=[lease]).availability is Availability.END
    assert book.queue("train").complete
