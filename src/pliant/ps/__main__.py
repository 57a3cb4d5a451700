"""``python -m pliant.ps``: one parameter server of the job that this process belongs to."""

from pliant.ps.server.process import main

main()
