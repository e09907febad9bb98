"""Laps and turns, with a clock that the tests set."""

import time

import pytest
import torch

from linstereo.efficiency.timing import Stopwatch, take_turns, timed

CPU = torch.device("cpu")


@pytest.fixture
def clock(monkeypatch):
    """A list whose only entry is the time."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    return now


def test_laps_of_one_name_add_up_and_leave_nothing_out(clock):
    clock[0] = 5.0
    watch = Stopwatch(CPU)
    for name, seconds in (("a", 1.0), ("b", 2.0), ("a", 4.0)):
        clock[0] += seconds
        watch.lap(name)
    assert watch.laps == {"a": 5.0, "b": 2.0}
    assert sum(watch.laps.values()) == clock[0] - 5.0


def test_timed_actions_tell_their_own_time(clock):
    def work():
        clock[0] += 3.0

    assert timed(CPU, work)() == {"": 3.0}


def test_actions_take_turns_and_warm_up_rounds_are_dropped():
    order, rounds = [], []

    def action(name):
        order.append(name)
        return {"": float(len(order))}

    kept = take_turns(
        {name: lambda name=name: action(name) for name in "ab"},
        rounds=3,
        warm_up=2,
        on_round=lambda: rounds.append(len(order)),
    )
    assert "".join(order) == "ab" * 5
    assert rounds == [2, 4, 6, 8, 10]
    assert kept == {"a": [{"": 5.0}, {"": 7.0}, {"": 9.0}], "b": [{"": 6.0}, {"": 8.0}, {"": 10.0}]}
