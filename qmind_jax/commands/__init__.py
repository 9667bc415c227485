"""The commands behind ``python -m qmind_jax``, one file each, and what they share."""
