"""What goes wrong with machines for tests."""


class MachineError(Exception):
    """A machine cannot be made or does not do what it was told; with the end of what it said."""
