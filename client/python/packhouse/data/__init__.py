"""Graphs, sizes and batches, and how batches are read. Knows no server."""
