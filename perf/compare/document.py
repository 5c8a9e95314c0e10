"""What a run has measured, as JSON."""

import json


def save(path, document, rows):
    """The list `document[rows]` has a line for each of its elements."""
    head = json.dumps({key: value for key, value in document.items() if key != rows}, indent=1)[:-2]
    with open(path, "w") as file:
        file.write(head + ',\n "%s": [\n  %s\n ]\n}\n' % (rows, ",\n  ".join(map(json.dumps, document[rows]))))
