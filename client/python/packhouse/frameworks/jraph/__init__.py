"""jraph. See `packhouse.jraph`."""
