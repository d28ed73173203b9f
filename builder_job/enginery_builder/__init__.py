"""The builder: `prepare` and `build`, the two Jobs that turn what a tenant uploaded into an engine in the store."""
