"""The one error type a user of the package is meant to see."""


class InputError(ValueError):
    """Bad input, told in one sentence: what is wrong, with which file or value, and what to do.

    Everything that can go wrong because of what the caller handed in (a file, a folder, a number, a checkpoint)
    raises this. The command line prints its message and exits with code 2; any other exception is a bug.
    """


class MissingExtraError(InputError, ImportError):
    """A package that only some features need is not installed; the message says how to install it."""
