"""Calls that are made thousands of times, over one stream per client instead of one gRPC call each.

Setting up and ending a gRPC call costs more than what most handlers do. So each client opens one bidirectional call
(``Calls.Open``), and its hot calls (``methods.STREAMED``) travel on it as numbered *frames*: what gathers while a message is on its
way goes with the next one. A frame carries what a call has (method, deadline, request; status, reply), and is served by the same
handler, so a call means the same on either way: a deadline ends it, an error of ours arrives as what it was, and a stream that
breaks fails the calls on it as a broken connection does: whoever makes them repeats them, by their numbers.

``methods`` says which calls these are and gives stubs a channel that knows it; ``blocking`` and ``asynchronous`` are the clients,
``serving`` is the server's side.
"""
