"""Pictures that go to files, on machines with or without a screen."""

from types import ModuleType


def headless_pyplot() -> ModuleType:
    """Pyplot, never opening a window. Only those who draw wait for its import."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot
