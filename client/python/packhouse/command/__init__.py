"""`packhouse`, the command line. `packhouse.command.program` begins; each command has a module."""
