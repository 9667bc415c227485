"""``python -m qmind_jax``: train and evaluate agents from the command line."""

from qmind_jax.cli import main

if __name__ == "__main__":
    main()
