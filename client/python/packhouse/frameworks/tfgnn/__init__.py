"""TF-GNN. See `packhouse.tfgnn`."""
