"""How a run of the machine ends, other than by its command."""

SKIPPED = 77


class VmError(Exception):
    """One sentence: what is wrong, and what to do. `status` is the exit status of the program."""

    status = 2


class Missing(VmError):
    """This computer lacks what the machine is made of."""

    status = SKIPPED


class Panic(VmError):
    """The machine's kernel has panicked."""

    status = 120


class Died(VmError):
    """The machine ended, or never began, without a panic."""

    status = 121


class SetupFailed(VmError):
    """The machine is up, but its devices could not be made."""

    status = 122


class TimedOut(VmError):
    """Nothing ended in time."""

    status = 124


class Signalled(Exception):
    """Whoever started the program wants it to end."""

    def __init__(self, number):
        super().__init__("signal %d" % number)
        self.number = number
