"""`tfscale run --render`: manifests and commands for a cluster, printed."""

from tfscale.suite import display
from tfscale.suite.commandline.common import answer, fail


def render(suite: str, launcher: str | None, only: str | None, trials: int | None, resume: bool, as_json: bool) -> None:
    """Print what starts `suite` with `launcher`. Options of the run that change it there are passed on."""
    from tfscale.suite import rendering

    try:
        found = rendering.render(suite, launcher=launcher, expression=only, trials=trials, resume=resume)
    except (ValueError, OSError) as error:
        raise fail(str(error)) from error
    if as_json:
        answer(found.model_dump(mode="json", by_alias=True))
    else:
        display.out.file.write(found.text())
