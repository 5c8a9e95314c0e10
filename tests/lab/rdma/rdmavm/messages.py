"""What the machine's first process says in the command's output: NUL, the run's token, a blank, words, newline."""


class Messages:
    """Tells messages from output, in whichever pieces both come."""

    def __init__(self, token):
        self._mark, self._held, self.up = b"\0" + token.encode() + b" ", b"", False

    def take(self, data):
        """(output, [message]). What may be the beginning of a message is held back."""
        self._held += data
        output, messages = b"", []
        while True:
            begin = self._held.find(self._mark)
            if begin < 0:
                break
            end = self._held.find(b"\n", begin)
            if end < 0:
                break
            messages.append(self._held[begin + len(self._mark):end].decode())
            output, self._held = output + self._held[:begin], self._held[end + 1:]
        self.up = self.up or "up" in messages
        held = begin if begin >= 0 else self._partial()
        output, self._held = output + self._held[:held], self._held[held:]
        return output, messages

    def _partial(self):
        """Where a mark begins whose rest has not come."""
        for length in range(min(len(self._mark) - 1, len(self._held)), 0, -1):
            if self._held.endswith(self._mark[:length]):
                return len(self._held) - length
        return len(self._held)
