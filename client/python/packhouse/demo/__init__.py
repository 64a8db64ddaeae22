"""The demo: real graphs through a real server and back, checked graph by graph."""
