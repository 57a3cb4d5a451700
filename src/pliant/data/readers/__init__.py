"""One reader per stored format, each a ``PartReader``; ``pliant.data.opening`` picks among them by path."""
