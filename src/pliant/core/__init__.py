"""Pure decisions: state machines and policies without I/O, threads or a clock of their own.

Every state machine here follows the same five rules, which make it replayable from a journal and easy to drive
through millions of random histories:

1. What changes state is a method whose first argument is ``now`` (seconds), and whose other arguments are
   keyword-only JSON values (str, int, float, bool, None, lists and dicts of them). The journal stores the method's
   name and its arguments; calling the same methods in the same order always yields the same state.
2. It checks everything first and raises a ``PliantError`` *before* it changes anything, so a refused request
   leaves no trace and is not journaled.
3. It returns what is decided, as frozen dataclasses that carry their reason as text for people. Someone else carries
   decisions out.
4. What depends on things that are not journaled (heartbeats come too often for that) is split in two: a *finder*
   that only reads (``overdue(now)``), and an event that is journaled once the finding is acted on.
5. ``snapshot()`` returns the whole state as JSON values, and ``restore(state)`` loads it; a restored machine behaves
   exactly like the original.
"""
