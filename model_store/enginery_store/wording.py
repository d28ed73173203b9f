"""How messages quote names that others wrote. Called by builder and converter wherever a sentence names a tensor, node
or file.

Names come from uploaded files: they may be long, or hold control characters, and messages end in conditions that
people read. So they are cut and escaped here, once.
"""

from collections.abc import Iterable

_NAME_LIMIT = 80
_LIST_LIMIT = 8


def quoted(name: str) -> str:
    """The name, escaped and cut in its middle, so that its end (often the part that differs) stays readable."""
    plain = name if name.isprintable() else name.encode("unicode_escape").decode("ascii")
    half = _NAME_LIMIT // 2
    return plain if len(plain) <= _NAME_LIMIT else f"{plain[: half - 2]}...{plain[-half + 1 :]}"


def listed(names: Iterable[str]) -> str:
    """The first few names, each once, and how many more there are."""
    every = list(dict.fromkeys(names))
    text = ", ".join(quoted(name) for name in every[:_LIST_LIMIT])
    return text if len(every) <= _LIST_LIMIT else f"{text} and {len(every) - _LIST_LIMIT} more"


def printable(text: str) -> str:
    """A whole sentence of somebody else's, its control characters and line ends turned into spaces."""
    return "".join(character if character.isprintable() else " " for character in text)
