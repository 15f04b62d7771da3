"""What a launcher raises when it cannot start ranks."""


class LaunchError(RuntimeError):
    """No rank could be started; the message says why and where to look. The case fails as `never_started`."""


class PortTakenError(LaunchError):
    """A port that had been free is taken: the launch is worth another try with other ports."""
