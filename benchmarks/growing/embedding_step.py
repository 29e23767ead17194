"""A training step of hash tables (forward, backward, Adagrad): against ids, features, minibatch size and threads."""

import gc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.contest.report import Section
from benchmarks.embedding_peers.base import Contestant, Setting, make_timer
from benchmarks.embedding_peers.hash_embedding import Trainee, make_trainee, prepare_plain
from benchmarks.growing.base import Axis, Chart, Trial, Turns, grow

from samovar.embeddings import HashAdagrad


@dataclass(frozen=True)
class Scale:
    """How far each axis goes, and the fixed values while another one grows."""

    ids: Sequence[int] = (10_000, 100_000, 1_000_000, 4_000_000)
    few_ids: int = 100_000
    many_ids: int = 1_000_000
    features: Sequence[int] = (1, 4, 13, 26, 52)
    batch_sizes: Sequence[int] = (64, 256, 1024, 4096, 16384)
    num_features: int = 8
    batch_size: int = 1024
    rows_per_turn: int = 16384


QUICK = Scale((100, 400), 100, 400, (1, 4), (64, 256), num_features=2, batch_size=64, rows_per_turn=256)


@dataclass(frozen=True)
class Point:
    trainee: Trainee
    setting: Setting
    num_ids: int


class Steps:
    """Single ids by Zipf's law; every table is full before it is timed."""

    def __init__(self, scale: Scale, threads: Sequence[int], turns: Turns) -> None:
        self._scale = scale
        self._threads = threads
        self._turns = turns

    def grow_all(self) -> Iterator[tuple[Section, Chart]]:
        for grow_one in (self._grow_ids, self._grow_features, self._grow_batches):
            yield grow_one()
            gc.collect()  # gigabytes of tables

    def _grow_ids(self) -> tuple[Section, Chart]:
        scale = self._scale
        setting = Setting(scale.batch_size, False, scale.num_features)
        points = {count: _fill(count, setting) for count in scale.ids}
        title = f"ids in each of {scale.num_features} tables, B = {scale.batch_size}"
        axis = Axis(title, "ids", "per step", "M ids", scale.few_ids, scale.many_ids, least=0.5)
        return self._grow(axis, points)

    def _grow_features(self) -> tuple[Section, Chart]:
        scale = self._scale
        points = {count: _fill(scale.few_ids, Setting(scale.batch_size, False, count)) for count in scale.features}
        few, many = scale.features[(len(scale.features) - 1) // 2], scale.features[-1]
        title = f"features, {scale.few_ids:,} ids each, B = {scale.batch_size}"
        return self._grow(Axis(title, "features", "per step", "M ids", few, many, least=0.8), points)

    def _grow_batches(self) -> tuple[Section, Chart]:
        scale = self._scale
        settings = {size: Setting(size, False, scale.num_features) for size in scale.batch_sizes}
        trainee = _fill(scale.many_ids, settings[scale.batch_sizes[0]]).trainee
        points = {size: Point(trainee, setting, scale.many_ids) for size, setting in settings.items()}
        few, many = scale.batch_sizes[(len(scale.batch_sizes) - 1) // 2], scale.batch_sizes[-1]
        title = f"rows of a minibatch, {scale.num_features} tables of {scale.many_ids:,} ids"
        return self._grow(Axis(title, "rows", "per step", "M ids", few, many, least=0.8), points)

    def _grow(self, axis: Axis, points: Mapping[int, Point]) -> tuple[Section, Chart]:
        trials = [
            self._try(size, point, num_threads) for num_threads in self._threads for size, point in points.items()
        ]
        return grow(axis, trials, self._turns)

    def _try(self, size: int, point: Point, num_threads: int) -> Trial:
        setting = point.setting
        steps = self._scale.rows_per_turn // setting.batch_size
        line = f"{num_threads} threads" if num_threads > 1 else "1 thread"
        contestant = Contestant(line, prepare_plain, point.trainee.step, point.num_ids, num_threads, num_threads)
        time_turn = make_timer(contestant, setting, self._turns.rounds, steps)
        return Trial(size, line, time_turn, self._scale.rows_per_turn * setting.num_tables / 1e6, steps)


def _fill(num_ids: int, setting: Setting) -> Point:
    return Point(make_trainee(HashAdagrad, num_ids, setting.num_tables), setting, num_ids)
