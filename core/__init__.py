"""What every other package uses: configuration, errors, the connections to Postgres and Redis, and processes."""
