"""What a job's master and the Brain say to each other, as plain values: reports one way, offers and grants the other."""
