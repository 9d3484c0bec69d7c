"""What the battery runs: one small model and its data, hand-written references, and a table of the methods."""
