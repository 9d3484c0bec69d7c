"""The lines of a parser's message, with the class that they are about."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_GIVEN = re.compile(r"Problem with given class_path '([^']+)'")


def lines_by_class(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yields every line that does not name a class, after the path of the class last named; empty before the first.

    Example:
        >>> given = "- Problem with given class_path 'torch.optim.SGD':"
        >>> list(lines_by_class(["Errors:", given, "  - Option 'momentm' is not accepted"]))
        [('', 'Errors:'), ('torch.optim.SGD', "Option 'momentm' is not accepted")]
    """
    given = ""
    for line in lines:
        text = line.strip().removeprefix("- ")
        if found := _GIVEN.match(text):
            given = found[1]
        else:
            yield given, text
