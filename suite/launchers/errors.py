"""What a launcher raises when it cannot start ranks at all."""


class LaunchError(RuntimeError):
    """No rank could be started; the message says why and where to look. The case fails as `never_started`."""
