"""Who trains together: worlds and ranks, virtual workers, and torchrun groups."""
