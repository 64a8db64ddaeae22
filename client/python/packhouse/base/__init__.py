"""What stands on nothing of packhouse: errors, arguments, arrays, processes, servers of one's own."""
