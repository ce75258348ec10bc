"""Which examples belong to a step: a function of the step, to resume within an epoch.

batches = Batches(len(data), 32, seed=0)
for step in store.steps(10 * len(batches)):        # ten epochs
    train_one(data[batches[step]])
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` alone takes as long to import as all the rest
if TYPE_CHECKING:
    from collections.abc import Iterator


class Batches:
    """`batches[step]`: the indices of a step, in a new order per epoch of `len(batches)` steps.

    It also is the `batch_sampler` of a PyTorch DataLoader: every iteration is one epoch, the first
    one from `start` on. Of several ranks each takes its part of the batch.
    """

    def __init__(
        self,
        count: int,
        size: int,
        *,
        seed: int = 0,
        shuffle: bool = True,
        drop_last: bool = False,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        if count < 1 or size < 1 or not 0 <= rank < world_size:
            raise ValueError(
                f"{count} examples in batches of {size} for rank {rank} of {world_size}"
            )
        if drop_last and count < size:
            raise ValueError(
                f"a batch of {size} from {count} examples, and smaller ones dropped: "
                "no batch is left"
            )
        self._count, self._size, self._seed, self._shuffle = count, size, seed, shuffle
        self._rank, self._world_size = rank, world_size
        self._steps = count // size if drop_last else -(-count // size)
        self._order: tuple[int, list[int]] = (-1, [])
        self.start = 0

    def __len__(self) -> int:
        """The steps of an epoch."""
        return self._steps

    @property
    def steps_in_epoch(self) -> int:
        """The steps from `start` to the end of its epoch."""
        return self._steps - self.start % self._steps

    def __getitem__(self, step: int) -> list[int]:
        if step < 0:
            raise IndexError(f"a step is a number from 0 on, not {step}")
        epoch, place = divmod(step, self._steps)
        batch = self._indices(epoch)[place * self._size : (place + 1) * self._size]
        return batch[self._rank :: self._world_size]

    def __iter__(self) -> Iterator[list[int]]:
        first = self.start
        # Now, not at the end: not every loop asks for one more batch after the last.
        self.start = (first // self._steps + 1) * self._steps
        for step in range(first, self.start):
            yield self[step]

    def _indices(self, epoch: int) -> list[int]:
        if not self._shuffle:
            epoch = 0
        if self._order[0] != epoch:
            order = list(range(self._count))
            if self._shuffle:
                from random import Random

                # Python promises that random() stays the same in later versions, not shuffle().
                draw = Random(f"{self._seed}/{epoch}").random  # noqa: S311  (nothing secret)
                keys = [draw() for _ in order]
                order.sort(key=keys.__getitem__)
            self._order = (epoch, order)
        return self._order[1]
