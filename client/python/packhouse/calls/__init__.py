"""How calls reach a server: credentials, channels, which of several servers, trying again."""
