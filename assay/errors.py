"""What Assay raises. Each message is one sentence: where, what was expected, what was found, what to do.

What to do stands behind the last semicolon; `allowed:` says at once what was expected and what to write instead.
"""

import errno

_WHAT_TO_DO = {
    errno.ENOSPC: "free space on that disk, or set TMPDIR and TRITON_CACHE_DIR to folders on another",
    errno.EDQUOT: "free space in your quota, or set TMPDIR and TRITON_CACHE_DIR to folders elsewhere",
    errno.EROFS: "work in a folder on a file system that can be written",
    errno.EACCES: "make it readable and writable for this user, or work in another folder",
}
"""What to do about what the system refuses by the machine's state, and by no fault of Assay's."""


class AssayError(Exception):
    """Base of every refusal; the command line prints its text and exits with `exit_code`.

    `remedy`: what to do, for kinds of which every refusal calls for the same, so that their messages do not say it.
    """

    exit_code = 2
    remedy = ""

    @property
    def sentence(self) -> str:
        """The whole refusal: its message, and what to do."""
        return f"{self}; {self.remedy}" if self.remedy else str(self)


class ConfigError(AssayError):
    """The configuration says something that no stage can carry out."""


class RecordError(AssayError):
    """An artifact on disk is unreadable, not canonical, edited or stale."""


class UsageError(AssayError):
    """The command line names something that does not exist or does not fit together."""


def refused_by_system(error: OSError) -> str | None:
    """Return one sentence where the machine's state is to blame, such as a full disk; None for any other error."""
    what = _WHAT_TO_DO.get(error.errno or 0)
    return what and f"{error.filename or 'a file'}: cannot be read or written ({error.strerror}); {what}"
