"""The client, by noun."""
