"""Kinds of prompts: found where there are any, few where rows are few."""

import numpy as np
import pytest
from scipy import sparse

from pointsman.learning.learning import CENTRES, KEPT, find_centres


def two_kinds(count: int) -> sparse.csr_matrix:
    """Rows of unit length that point along the first or the last three of 600 dimensions, with some noise."""
    draw = np.random.default_rng(0)
    rows = draw.random((count, 600)) * 0.01
    rows[: count // 2, :3] += 1.0
    rows[count // 2 :, -3:] += 1.0
    return sparse.csr_matrix(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def test_every_kind_has_a_centre_and_no_other_kind_is_near() -> None:
    features = two_kinds(60)
    centres = find_centres(features)
    nearest = np.asarray(features @ centres.T).max(axis=1)
    assert nearest.min() > 0.9
    stranger = np.zeros(600)
    stranger[300] = 1.0
    assert (centres @ stranger).max() < 0.1


@pytest.mark.parametrize(("rows", "count"), [(1, 1), (10, 1), (40, 5), (1_000, CENTRES)])
def test_how_many(rows: int, count: int) -> None:
    assert len(find_centres(two_kinds(max(rows, 2))[:rows])) == count


def test_centres_are_sparse_of_unit_length_and_the_same_again() -> None:
    centres = find_centres(two_kinds(60))
    assert np.linalg.norm(centres, axis=1) == pytest.approx(1.0)
    assert (np.count_nonzero(centres, axis=1) <= KEPT).all()
    assert (centres == find_centres(two_kinds(60))).all()
