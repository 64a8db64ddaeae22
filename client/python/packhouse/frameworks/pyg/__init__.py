"""PyTorch Geometric. See `packhouse.pyg`."""
