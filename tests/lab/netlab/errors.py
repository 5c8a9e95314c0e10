"""What a user is told instead of a traceback."""


class LabError(Exception):
    """One sentence: what is wrong, where, and what to do. The tool ends with exit code 2."""
