"""PyTorch. See `packhouse.torch`."""
