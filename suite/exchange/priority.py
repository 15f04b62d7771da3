"""Priority: the large dense gradients leave first, the many small ones after them. The means are those of `none`."""

from collections.abc import Sequence

from tfscale.suite.exchange.arguments import whole
from tfscale.suite.exchange.pack import Packed


class Priority(Packed):
    """`priority` or `priority(large=65536)`: gradients of that many elements leave first, each on its own; the rest then.

    Among the large ones the order is that of the backward pass. By size alone, all would wait for the largest, which may
    well be the last to be ready: the embedding of a language model with a tied decoder is.
    """

    name = "priority"

    def __init__(self, large: int = 65536) -> None:
        super().__init__()
        self._large = whole("large", large)

    def packs(self, sizes: Sequence[int]) -> list[list[int]]:
        return large_first(sizes, self._large)


def large_first(sizes: Sequence[int], large: int) -> list[list[int]]:
    """Places of at least `large` elements, each alone, from the last to the first; then all others together."""
    backward = list(reversed(range(len(sizes))))
    alone = [[place] for place in backward if sizes[place] >= large]
    rest = [place for place in backward if sizes[place] < large]
    return [*alone, rest] if rest else alone
