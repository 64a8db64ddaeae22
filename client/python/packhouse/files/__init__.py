"""Real graphs: syntax trees that every machine with Python has, and files of graphs or sizes."""
