"""Whether checkpoints reach their destination, and what follows if they do not."""
