"""One module per revision. What was released is never edited: a later change is a revision of its own."""
