"""Epochs of a data set: loaders, evaluations, worker processes that read."""
