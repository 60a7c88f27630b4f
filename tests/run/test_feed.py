from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest

from nitro_repl._run.data import ArrayLoader, Feed, Position
from nitro_repl.errors import DataError


class Stream:
    """A loader that is a generator: no state, its epoch read when it starts."""

    def __init__(self, n=3, given=None):
        self.n, self.given = n, n if given is None else given
        self.epoch = 0
        self.started = self.ended = self.closed = 0

    def __len__(self):
        return self.n

    def __iter__(self):
        self.started += 1
        try:
            for index in range(self.given):
                yield (self.epoch, index)
            self.ended += 1
        finally:
            self.closed += 1

    def set_epoch(self, epoch):
        self.epoch = epoch


class Plain(Stream):
    set_epoch = property()  # hides it: hasattr is False


def take(feed, n):
    return [(f.epoch, f.index, f.batch) for f in itertools.islice(feed, n)]


def array_loader(**settings):
    return ArrayLoader({"y": np.arange(10)}, 4, shuffle=True, **settings)


def values(feed, n):
    return [fed.batch["y"].tolist() for fed in itertools.islice(feed, n)]


def test_a_feed_runs_through_epoch_after_epoch_and_tells_the_loader():
    stream = Stream(2)
    feed = Feed(stream)
    assert feed.steps_per_epoch == 2
    assert take(feed, 5) == [
        (e, i, (e, i)) for e, i in [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]
    ]


def test_a_loader_without_set_epoch_is_fine():
    assert [at[:2] for at in take(Feed(Plain(2)), 3)] == [(0, 0), (0, 1), (1, 0)]


def test_a_generator_is_run_to_its_end_at_the_end_of_an_epoch():
    stream = Stream(2)
    take(Feed(stream), 3)
    assert stream.ended == 1


@pytest.mark.parametrize("make", [array_loader, Stream, Plain])
@pytest.mark.parametrize("read", range(8))
def test_a_position_restored_elsewhere_continues_with_the_same_batch(make, read):
    feed = Feed(make())
    take(feed, read)
    position = feed.position
    rest = take(feed, 5)
    other = Feed(make(), position=position)
    assert repr(take(other, 5)) == repr(rest)


@pytest.mark.parametrize("read", range(8))
def test_a_feed_can_go_back(read):
    feed = Feed(array_loader())
    whole = values(feed, 8)
    feed.restore(Position())
    values(feed, read)
    position = feed.position
    assert values(feed, 8 - read) == whole[read:]
    feed.restore(position)
    assert feed.position == position
    assert values(feed, 8 - read) == whole[read:]


def test_a_position_after_the_last_batch_is_the_next_epoch():
    feed = Feed(array_loader())
    take(feed, 3)
    assert feed.position == Position(1, 0)


def test_a_state_spares_reading_again_and_its_absence_does_not():
    drawn = []

    def transform(batch, rng):
        drawn.append(1)
        return batch

    feed = Feed(array_loader(transform=transform))
    take(feed, 2)
    position = feed.position
    drawn.clear()
    take(Feed(array_loader(transform=transform), position=position), 1)
    assert len(drawn) == 1
    counted = Position(position.epoch, position.index)
    take(Feed(array_loader(transform=transform), position=counted), 1)
    assert len(drawn) == 1 + 3


def test_a_position_keeps_a_copy_of_the_iterators_state():
    class Iterator:
        def __init__(self):
            self.state = {"at": 0}

        def __next__(self):
            self.state["at"] += 1
            return {}

        def get_state(self):
            return self.state

        def set_state(self, state):
            self.state = state

    class Loader:
        def __len__(self):
            return 9

        def __iter__(self):
            return Iterator()

    feed = Feed(Loader())
    take(feed, 2)
    position = feed.position
    take(feed, 2)
    assert position.state == {"at": 2}


def test_feeds_that_share_a_loader_do_not_move_each_other():
    loader = array_loader()
    one, two = Feed(loader), Feed(loader, position=Position(5, 0))
    alone = values(Feed(array_loader()), 6)
    alone_two = values(Feed(array_loader(), position=Position(5, 0)), 6)
    mixed = [(values(one, 1)[0], values(two, 1)[0]) for _ in range(6)]
    assert mixed == list(zip(alone, alone_two, strict=True))


def test_feeds_of_several_threads_read_the_epoch_they_asked_for():
    stream = Stream(1)
    wrong = []

    def read(first):
        feed = Feed(stream, position=Position(first, 0))
        wrong.extend(f for f in itertools.islice(feed, 200) if f.epoch != f.batch[0])

    threads = [threading.Thread(target=read, args=(1000 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_loader_with_fewer_batches_than_its_length_is_refused():
    feed = Feed(Stream(3, given=2))
    take(feed, 2)
    with pytest.raises(DataError, match=r"`train` gave 2 batches in epoch 0.*is 3"):
        next(feed)


def test_a_loader_used_up_by_its_first_epoch_is_refused_with_the_fix():
    class Once(list):
        def __iter__(self):
            while self != []:
                yield self.pop()

        def __len__(self):
            return 2

    feed = Feed(Once([{}, {}]))
    take(feed, 2)
    with pytest.raises(DataError, match="start anew"):
        next(feed)


def test_skipping_past_what_a_loader_gives_is_refused():
    feed = Feed(Stream(5, given=2), position=Position(0, 4))
    with pytest.raises(DataError, match="gave 2 batches"):
        next(feed)


def test_a_loader_of_length_zero_is_refused():
    with pytest.raises(DataError, match=r"its len\(\) is 0"):
        Feed(Stream(0))


def test_a_position_behind_the_end_is_refused():
    with pytest.raises(DataError, match="Batch 4 is behind the end of an epoch of 3"):
        Feed(Stream(3), position=Position(0, 4))


def test_a_loader_with_more_batches_than_its_length_is_warned_about_once():
    feed = Feed(Stream(2, given=5))
    with pytest.warns(RuntimeWarning, match="more batches than the 2") as warned:
        assert take(feed, 5)[-1][:2] == (2, 0)
    assert len(warned) == 1


def test_what_the_loader_raises_passes_through_and_the_batch_is_asked_for_again():
    failures = [OSError("disk")]

    class Flaky(Stream):
        def __iter__(self):
            for index in range(self.n):
                if index == 1 and failures:
                    raise failures.pop()
                yield (self.epoch, index)

    feed = Feed(Flaky(3))
    take(feed, 1)
    with pytest.raises(OSError, match="disk"):
        next(feed)
    assert feed.position == Position(0, 1)
    assert take(feed, 2) == [(0, 1, (0, 1)), (0, 2, (0, 2))]


def test_an_error_in_a_transform_leaves_the_position_at_its_batch():
    failures = [OSError("disk")]

    def transform(batch, rng):
        if len(batch["y"]) == 2 and failures:
            raise failures.pop()
        return batch

    feed = Feed(array_loader(transform=transform))
    with pytest.raises(OSError, match="disk"):
        take(feed, 3)
    assert values(feed, 1) == values(Feed(array_loader()), 3)[2:]


def test_closing_ends_a_generator_and_keeps_the_position():
    stream = Stream(3)
    feed = Feed(stream)
    take(feed, 2)
    feed.close()
    assert stream.closed == 1
    assert feed.position == Position(0, 2)
    assert take(feed, 2) == [(0, 2, (0, 2)), (1, 0, (1, 0))]
    feed.close()
    feed.close()


def test_closing_keeps_the_state_of_an_iterator():
    feed = Feed(array_loader())
    whole = values(feed, 3)
    feed.restore(Position())
    take(feed, 1)
    feed.close()
    assert values(feed, 2) == whole[1:]
