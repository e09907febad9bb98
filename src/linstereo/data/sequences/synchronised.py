"""Pairing two streams of messages by their time stamps, without reading ahead by more than one message."""

from collections.abc import Iterator
from typing import Generic, TypeVar

Content = TypeVar("Content")


class Synchronised(Generic[Content]):
    """Pairs of a left and a right message that are nearest to each other in time, each used once at most.

    Args:
        left: stamps, nanoseconds, and contents in rising order of the stamps.
        right: the same of the other side.
        tolerance: nanoseconds by which the stamps of a pair may differ.

    Attributes:
        count: pairs so far.
        lone: messages so far that have no partner.
        nearest: least difference of two stamps that were compared, nanoseconds; None if a side has no message.
        empty_left: the left side has no message.
    """

    def __init__(
        self, left: Iterator[tuple[int, Content]], right: Iterator[tuple[int, Content]], *, tolerance: int
    ) -> None:
        self._left, self._right = left, right
        self._tolerance = tolerance
        self.count = 0
        self.lone = 0
        self.nearest: int | None = None
        self.empty_left = False

    def __iter__(self) -> Iterator[tuple[int, Content, Content]]:
        """Stamp of the left message, left and right contents."""
        left, right = next(self._left, None), next(self._right, None)
        self.empty_left = left is None
        while left is not None and right is not None:
            early, late = (left, right) if left[0] <= right[0] else (right, left)
            apart = late[0] - early[0]
            self.nearest = apart if self.nearest is None else min(apart, self.nearest)
            following = next(self._left if early is left else self._right, None)
            if apart > self._tolerance or (following is not None and abs(following[0] - late[0]) < apart):
                self.lone += 1
                left, right = (following, right) if early is left else (left, following)
                continue
            yield left[0], left[1], right[1]
            self.count += 1
            if early is left:
                left, right = following, next(self._right, None)
            else:
                left, right = next(self._left, None), following
        self.lone += (left is not None) + (right is not None)
        self.lone += sum(1 for _ in self._left) + sum(1 for _ in self._right)
