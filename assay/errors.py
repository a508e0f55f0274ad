"""What Assay raises. Each message is one sentence: where, what was expected, what was found, what to do."""


class AssayError(Exception):
    """Base of every refusal; the command line prints its text and exits with `exit_code`."""

    exit_code = 2


class ConfigError(AssayError):
    """The configuration says something that no stage can carry out."""


class RecordError(AssayError):
    """An artifact on disk is unreadable, not canonical, edited or stale."""


class UsageError(AssayError):
    """The command line names something that does not exist or does not fit together."""
