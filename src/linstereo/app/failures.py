"""Refusals: a status of HTTP and one sentence for whoever asked."""

import dataclasses

from linstereo.errors import InputError


class RefusedError(Exception):
    """A request that is not answered with a result.

    Args:
        status: of the HTTP answer.
        sentence: what is wrong, and what to do.
        retry_after: seconds after which it may work, for a busy server.
    """

    def __init__(self, status: int, sentence: str, *, retry_after: int | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
        self.retry_after = retry_after

    @property
    def headers(self) -> dict[str, str]:
        """What the answer says besides the sentence."""
        found = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        return found | ({"WWW-Authenticate": "Bearer"} if self.status == 401 else {})


class CancelledJobError(Exception):
    """Ends the work on a job whose client has gone."""


@dataclasses.dataclass(frozen=True)
class Names:
    """How the private files of a request are called in sentences: by what they are, never by where they lie."""

    names: tuple[tuple[str, str], ...]

    def refusal(self, error: InputError, *, status: int = 422) -> RefusedError:
        """An error about files or values of a request as an answer to it."""
        return RefusedError(status, self.told(str(error)))

    def told(self, sentence: str) -> str:
        """A sentence without private paths and without options of the command line, which a client does not have."""
        for path, name in self.names:
            sentence = sentence.replace(path, name)
        for option, field in _FIELDS.items():
            sentence = sentence.replace(option, field)
        return sentence[:1].upper() + sentence[1:]


_FIELDS = {
    "(linstereo predict --scale-calib)": "(scale_calibration)",
    "(linstereo rectify)": "(with a calibration of the raw cameras)",
    "--baseline and calib.json take metres": "the field baseline and calib.json take metres",
    "--calib-unit tells": "the field unit tells",
    "--calib-unit": "unit",
    "--fisheye": "fisheye",
    "--rectified": "rectified",
}
