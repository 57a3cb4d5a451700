"""The web page of jobs: what every command shows, live, for people who look at a page first.

``documents`` makes JSON documents of what a ``JobHandle`` returns (pure functions); ``watching`` polls jobs that somebody
looks at, once for all who do, and sends differences; ``security`` decides who may ask; ``app`` is the routes over these,
``serving`` the process, and ``report`` puts the same front end (``static``) and the documents of one job into a file that
needs no server.

It reads jobs through ``pliant.handles`` alone, so every platform has it.
"""
