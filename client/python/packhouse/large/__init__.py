"""Source graphs, sub-graphs drawn from them, and their partitions."""
