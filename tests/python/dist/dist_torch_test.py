# SPDX-License-Identifier: Apache-2.0
"""ccoll.dist over torch's tensors, with the backends ccoll and gloo."""

import logging
from unittest import mock

import dist_values
import pytest
from torch_support import VERSION, ranks, torch

import ccoll.dist.dist
from ccoll import Mismatch, dist
from ccoll.dist import _many


def make(values, kind="float32"):
    return torch.tensor(values, dtype=getattr(torch, kind))


def test_alone():
    dist_values.alone(make)


def test_devices():
    dist_values.devices(make)
    with pytest.raises(ValueError, match="should be consistent, but is cpu and meta"):
        dist.get_data_device([torch.ones(1), torch.ones(1, device="meta")])


@pytest.mark.parametrize("backend", ["ccoll", "gloo"])
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("values", dist_values.EVERYTHING, ids=lambda each: each.__name__)
def test_values(values, size, backend):
    if backend == "gloo" and values is dist_values.moves and VERSION < (2, 12):
        pytest.skip("gloo has all_to_all of lists from torch 2.12 on")
    ranks(size, lambda rank, size: values(make, rank, size), backend=backend)


@pytest.mark.parametrize("backend", ["ccoll", "gloo"])
def test_results_through_files(backend, tmp_path):
    ranks(2, lambda rank, size: dist_values.files(make, rank, size, str(tmp_path)), backend=backend)


def of_eight(rank, size):
    x = make([1, 2, 3, 4] if rank == 0 else [0] * 4)
    dist.broadcast(x)
    assert x.tolist() == [1, 2, 3, 4]
    dist.scatter(x, list(torch.arange(32.0).reshape(8, 4)) if rank == 0 else None)
    assert x.tolist() == [4 * rank + i for i in range(4)]
    gathered = dist.gather(make([rank, 2 * rank]))
    assert dist_values.lists(gathered) == ([[r, 2 * r] for r in range(8)] if rank == 0 else [])
    dist.reduce(x := make([rank, rank + 1, rank + 2]), 0)
    assert x.tolist() == ([28, 36, 44] if rank == 0 else [rank, rank + 1, rank + 2])
    dist.all_reduce(x := make([1, 2, 3]) * (rank + 1))
    assert x.tolist() == [36, 72, 108]
    everyone = dist.all_gather(make([rank, 2 * rank, 3 * rank]))
    assert dist_values.lists(everyone) == [[r, 2 * r, 3 * r] for r in range(8)]
    assert dist.all_to_all(make([rank * 8 + i for i in range(8)])).tolist() == [8 * r + rank for r in range(8)]


def test_the_tutorials_eight_ranks():
    ranks(8, of_eight)


def of_four(rank, size):
    dist.reduce_scatter(x := make([0]), [make([rank * 10 + i]) for i in range(4)])
    return x.item()


def test_reduce_scatter_of_four():
    assert ranks(4, of_four) == [60, 64, 68, 72]


def seeds(rank, size):
    with mock.patch("numpy.random.randint", return_value=10):
        assert ccoll.dist.dist.sync_random_seed() == 10
    with mock.patch.object(torch, "tensor", return_value=torch.tensor(1024 if rank == 0 else 3)) as made:
        assert ccoll.dist.dist.sync_random_seed() == 1024
    made.assert_called()


def test_the_seed_is_rank_0s_tensor():
    ranks(2, seeds)


def with_gradients(rank, size):
    weight = torch.full((2,), rank + 1.0, requires_grad=True)
    dist.all_reduce(weight, "mean")
    dist.all_reduce_params([weight])
    assert weight.tolist() == [3, 3] and weight.requires_grad and weight.is_leaf
    assert all(not each.requires_grad for each in dist.all_gather(weight))
    strided = torch.arange(4.0).reshape(2, 2).t()
    dist.all_reduce_params([strided, torch.ones(1)])
    assert strided.tolist() == [[0, 4], [2, 6]]
    sparse = torch.sparse_coo_tensor([[rank]], [1.0], (2,))
    dist.all_reduce(sparse)
    assert sparse.to_dense().tolist() == [1, 1]


@pytest.mark.parametrize("backend", ["ccoll", "gloo"])
def test_parameters_keep_what_they_are(backend):
    ranks(2, with_gradients, backend=backend)


def on_another_device(rank, size):
    meta = torch.ones(1, device="meta")
    for call in (lambda: dist.isend(meta, 0), lambda: dist.P2POp(dist.irecv, meta, 0)):
        dist_values.raises(ValueError, call, "takes tensors on cpu", "a tensor on meta", "x.to('cpu')")
    with mock.patch.object(logging.getLogger("ccoll.dist"), "warning") as said:
        for _ in range(2):
            with pytest.raises(NotImplementedError):  # torch cannot copy from there
                dist.all_reduce(meta)
    (told,) = said.call_args_list
    text = told.args[0] % told.args[1:]
    assert "backend" in text and "a tensor on meta is copied to cpu and back in each call" in text, text


def means(rank, size):
    halves = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e4m3fn, torch.float8_e5m2]
    cut = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64]
    for dtype in halves + cut:
        given = torch.tensor([rank + 1.0, 3.0]).to(dtype)
        expected = [1.5 if dtype in halves else 1.0, 3.0]
        dist.all_reduce(x := given.clone(), "mean")
        assert x.float().tolist() == expected, dtype
        dist.all_reduce_params([x := given.clone()], op="mean")
        assert x.float().tolist() == expected, dtype


def test_means_of_every_type():
    ranks(2, means)


@pytest.mark.parametrize("backend", ["ccoll", "gloo"])
def test_a_device_that_does_not_fit_is_told_of(backend):
    ranks(2, on_another_device, backend=backend)


def with_numpy(rank, size):
    import numpy

    dist_values.raises(TypeError, lambda: dist.all_reduce(numpy.ones(1)), "data is ndarray", "expected a tensor")


def test_arrays_beside_torch():
    ranks(2, with_numpy)


def wrong_lists(rank, size):
    x = torch.ones(2)
    parts = [torch.ones(2), torch.ones(3)]
    if rank == 0:
        dist_values.raises(ValueError, lambda: dist.scatter(x, parts), "scatter_list[1] is float32 of shape (3,)")
        dist_values.raises(ValueError, lambda: dist.scatter(x), "NoneType", "a list of 2 tensors")
    dist_values.raises(ValueError, lambda: dist.reduce_scatter(x, parts[:1]), "1 items", "a list of 2 tensors")
    dist_values.raises(TypeError, lambda: dist.all_gather(3), "data is int", "expected a tensor")
    dist_values.raises(ValueError, lambda: dist.all_reduce(x, 3), "op is 3", "sum, mean")


def test_wrong_arguments():
    ranks(2, wrong_lists)


def odd_tensors(rank, size):
    def sparse():
        return torch.sparse_coo_tensor(torch.tensor([[rank]]), torch.tensor([1.0]), (2,))

    x, dense = sparse(), torch.ones(2)
    dist.all_reduce_params([x, dense, sparse(), x], op="mean")
    assert x.to_dense().tolist() == [0.5, 0.5] and dense.tolist() == [1, 1]
    dist.all_reduce_dict(data := {"a": sparse(), "b": torch.ones(1)})
    assert data["a"].to_dense().tolist() == [1, 1] and data["b"].tolist() == [2]
    dist.all_reduce(x := sparse(), "mean")
    assert x.to_dense().tolist() == [0.5, 0.5]
    one = sparse() if rank else sparse().to_dense()
    said = "rank 1 passes [0] sparse_coo float32 of shape (2,), where rank 0 passes [0] float32 of shape (2,)"
    dist_values.raises(Mismatch, lambda: dist.all_reduce_params([one]), said)
    bent = torch.tensor([1 + 1j]).conj()
    negative = torch.tensor([1 + 2j]).conj().imag
    dist.all_reduce_params([bent, torch.tensor([2j]), negative, torch.ones(1)])
    assert bent.tolist() == [2 - 2j] and negative.tolist() == [-4]
    dist.all_reduce(bent)
    assert bent.tolist() == [4 - 4j]
    on = [torch.ones(1), torch.ones(1, device="meta" if rank else "cpu")]
    dist_values.raises(Mismatch, lambda: dist.all_reduce_params(on), "rank 1 passes [1] float32 of shape (1,) on meta")


@pytest.mark.parametrize("backend", ["ccoll", "gloo"])
def test_sparse_and_conjugate_tensors(backend):
    ranks(2, odd_tensors, backend=backend)


class On:
    """A tensor with only the attributes that the comparison reads, on a device with a number."""

    dtype, layout, shape = torch.float32, torch.strided, (1,)

    def __init__(self, number):
        self.device = torch.device("cuda", number)


def test_ranks_may_use_other_devices_but_must_spread_tensors_alike():
    def number(*devices):
        return _many._fingerprint(None, [On(each) for each in devices], {}, "", {})

    assert number(0, 0) == number(1, 1) and number(0, 1) == number(1, 0)
    assert number(0, 1) != number(0, 0) and number(0, 1, 0) != number(0, 1, 1)
    told = list(_many._descriptions([0, 1], [On(3), On(1)], {}))
    assert "device" not in told[0] and "(device 2 in order of use)" in told[1], told
