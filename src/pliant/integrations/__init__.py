"""Other people's training loops and trackers, each in a module of its own that imports its package only when it is used.

``transformers``, ``lightning`` and ``accelerate`` report progress and metrics of their loops to the job, and make a checkpoint
and leave when the node is to go (``leave``). ``mlflow`` and ``wandb`` pass what the program reports on to trackers.
"""
