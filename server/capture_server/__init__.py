"""The reference server: ShardRuntime, a worker that checks every byte that it takes off the socket and echoes it."""
