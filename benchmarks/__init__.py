"""Benchmarks; each is a command that prints one JSON line per row."""
