"""Messages for names that nobody knows."""

import difflib
from collections.abc import Iterable


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """Message for an unknown name that suggests the nearest known one, in upper or lower case."""
    known = list(known)
    by_folded = {other.casefold(): other for other in known}
    nearest = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.4)
    hint = f" Did you mean {by_folded[nearest[0]]!r}?" if nearest else ""
    return f"unknown {kind} {name!r}.{hint} Known: {', '.join(known)}"
