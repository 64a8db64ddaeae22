"""Plans, limits for a device, and streams of graphs that are packed at once."""
