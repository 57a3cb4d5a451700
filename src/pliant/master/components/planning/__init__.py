"""Automatic resources of one job: ``planner.py`` measures and plans, ``history.py`` puts together what is planned by."""
