"""DGL. See `packhouse.dgl`."""
