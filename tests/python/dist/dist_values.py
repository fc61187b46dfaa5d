# SPDX-License-Identifier: Apache-2.0
"""The values that each call of ccoll.dist gives: for tensors of torch and for arrays of numpy.

make(values, kind="float32") makes a tensor; `values` may be a number or nested lists.
"""

import os

from ccoll import Mismatch, dist


def raises(kind, call, *parts):
    """The text of the error that the call raises; it must contain each of `parts`."""
    try:
        call()
    except kind as error:
        for each in parts:
            assert each in str(error), f"{each!r} is not in: {error}"
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


def lists(tensors):
    return [each.tolist() for each in tensors]


def alone(make):
    """Every call in a single process."""
    assert not dist.is_distributed() and dist.get_backend() is None and dist.get_dist_info() == (0, 1)
    assert (dist.get_rank(), dist.get_world_size(), dist.get_local_rank(), dist.get_local_size()) == (0, 1, 0, 1)
    assert dist.get_default_group() is None and dist.get_local_group() is None and dist.new_group([0]) is None
    assert dist.is_main_process() and dist.master_only(lambda x: x + 1)(1) == 2
    dist.init_local_group(0, 1), dist.barrier(), dist.destroy_group(), dist.cleanup_dist()
    x = make([1, 2])
    for op in ("sum", "MEAN", "product", "min", "max", "band", "bor", "bxor", dist.ReduceOp.SUM):
        assert dist.all_reduce(x, op) is None and dist.reduce(x, op=op) is None and x.tolist() == [1, 2]
    assert dist.all_reduce(x, async_op=True).wait() and dist.barrier(async_op=True).is_completed()
    raises(ValueError, lambda: dist.all_reduce(x, "average"), "'average'", "sum, mean, product, min, max, band")
    assert dist.all_gather(x)[0] is x and dist.gather(x)[0] is x and dist.all_to_all(x) is x
    assert dist.broadcast(x) is None and x.tolist() == [1, 2]
    for call in (
        lambda out: dist.all_gather([out], x), lambda out: dist.gather(x, [out], dst=0),
        lambda out: dist.scatter(out, [x]), lambda out: dist.reduce_scatter(out, [x]),
        lambda out: dist.all_to_all([out], [x]),
    ):  # fmt: skip
        call(out := make([0, 0]))
        assert out.tolist() == [1, 2]
    raises(AssertionError, lambda: dist.broadcast_object_list("foo"), "expected a list")
    dist.broadcast_object_list(objects := ["foo", 12, {1: 2}])
    assert objects == ["foo", 12, {1: 2}]
    assert dist.all_gather_object("foo") == dist.gather_object("foo") == ["foo"]
    dist.all_gather_object(objects := [None], "foo")
    dist.gather_object("bar", more := [None])
    assert (objects, more) == (["foo"], ["bar"])
    raises(AssertionError, lambda: dist.all_reduce_dict("foo"), "expected a dict")
    dist.all_reduce_dict(data := {"a": x})
    assert data["a"] is x
    dist.all_reduce_params(params := iter([x]))
    assert next(params) is x, "the generator was used up"
    assert dist.collect_results([1, None, 3], 2) == dist.collect_results([1, None], 9, "gpu") == [1, None]
    raises(NotImplementedError, lambda: dist.collect_results([], 1, "tpu"), "'tpu'", "'cpu', 'gpu' or 'npu'")
    raises(RuntimeError, lambda: dist.send(x, 1), "alone")
    assert dist.batch_isend_irecv([]) == []
    assert 0 <= dist.sync_random_seed() < 2**31


def devices(make):
    """Devices of data in containers; the errors are those of mmengine.dist."""
    cpu = dist.get_current_device(use_cpu=True)
    x = make([1, 2])
    assert dist.get_comm_device() == cpu == dist.get_data_device(x) == dist.get_data_device({"a": [x, (x,)]})
    raises(ValueError, lambda: dist.get_data_device([]), "data should not be empty")
    raises(TypeError, lambda: dist.get_data_device("text"), "data should be a Tensor, sequence of tensor or dict")
    raises(TypeError, lambda: dist.get_data_device([3]), "is 3")
    assert dist.cast_data_device(x, cpu) is x
    cast = dist.cast_data_device({"a": (x, x)}, cpu, out := {"a": (make([0, 0]), make([0, 0]))})
    assert type(cast["a"]) is tuple and lists(cast["a"]) == lists(out["a"]) == [[1, 2], [1, 2]]
    raises(TypeError, lambda: dist.cast_data_device([x], cpu, (x,)), "out is tuple", "list")
    raises(TypeError, lambda: dist.cast_data_device({1}, cpu, {1}), "out should not be a set")
    raises(ValueError, lambda: dist.cast_data_device([x], cpu, []), "length of data and out should be same")
    raises(ValueError, lambda: dist.cast_data_device([], cpu), "data should not be empty")
    raises(TypeError, lambda: dist.cast_data_device("text", cpu), "'text'")


def reductions(make, rank, size):
    for kind in ("int64", "float32", "float64"):
        dist.all_reduce(x := make([rank + 1, 2], kind), "Mean")
        mean = (size + 1) / 2
        assert x.tolist() == [int(mean) if kind == "int64" else mean, 2], x
    # More digits than a float32 or a float64 has; truncated towards 0.
    dist.all_reduce(x := make([2**60 + 1, -3 - (rank == 0)], "int64"), "mean")
    assert x.tolist() == [2**60 + 1, -3], x
    work = dist.all_reduce(x := make([rank + 1.0], "float32"), "mean", async_op=True)
    while not work.is_completed():
        pass
    assert x.tolist() == [mean], x
    for op, expected in {
        "sum": size * (size + 1) // 2, "max": size, "min": 1, dist.ReduceOp.SUM: size * (size + 1) // 2,
        dist.ReduceOp.MAX: size, dist.ReduceOp.AVG: (size + 1) // 2,
    }.items():  # fmt: skip
        dist.all_reduce(x := make([rank + 1], "int64"), op)
        assert x.tolist() == [expected], op
        dist.reduce(x := make([rank + 1], "int64"), 1, op)
        assert x.tolist() == [expected if rank == 1 else rank + 1], op
        dist.reduce_scatter(x := make([0], "int64"), [make([rank + 1], "int64") for _ in range(size)], op)
        assert x.tolist() == [expected], op
    for op, expected in {"product": 2**size, "band": 2, "bor": 2, "bxor": 2 * (size % 2)}.items():
        dist.all_reduce(x := make([2], "int64"), op)
        assert x.tolist() == [expected], op
    work = dist.all_reduce(x := make([rank + 1.0]), "mean", async_op=True)
    assert work.wait() and work.is_completed() and x.tolist() == [(size + 1) / 2]


def moves(make, rank, size):
    everyone = [[r, 2 * r] for r in range(size)]
    x = make(everyone[rank])
    assert lists(dist.all_gather(x)) == everyone
    outs = [make([0, 0]) for _ in range(size)]
    assert dist.all_gather(outs, x) is None and lists(outs) == everyone
    dist.all_gather(outs := [make([0, 0]) for _ in range(size)], x, async_op=True).wait()
    assert lists(outs) == everyone
    assert lists(dist.gather(x)) == (everyone if rank == 0 else [])
    assert lists(dist.gather(x, 1)) == (everyone if rank == 1 else [])
    outs = [make([0, 0]) for _ in range(size)] if rank == 1 else None
    dist.gather(x, outs, dst=1)
    assert outs is None or lists(outs) == everyone
    dist.broadcast(x, 1)
    assert x.tolist() == [1, 2]
    dist.scatter(x, [make(each) for each in everyone] if rank == 1 else None, src=1)
    assert x.tolist() == everyone[rank]
    parts = make([size * rank + r for r in range(size)])
    column = [float(size * r + rank) for r in range(size)]
    assert dist.all_to_all(parts).tolist() == column
    outs = [make([0]) for _ in range(size)]
    dist.all_to_all(outs, [parts[r : r + 1] for r in range(size)])
    assert lists(outs) == [[each] for each in column]
    rows = make([[rank + 1, 0], [rank + 1, 0]])
    dist.all_reduce(rows[:, 0])
    assert rows.tolist() == [[size * (size + 1) / 2, 0]] * 2, "a column is reduced where it lies"
    raises(ValueError, lambda: dist.all_to_all(make([0] * (size + 1))), f"({size + 1},)", f"multiple of {size}")
    raises(ValueError, lambda: dist.all_gather([x], x), "1 items", f"a list of {size} tensors")


def messages(make, rank, size):
    right, left = (rank + 1) % size, (rank - 1) % size
    sending = dist.isend(make([rank]), right)
    assert dist.recv(x := make([0]), left) == left and x.tolist() == [left]
    assert sending.wait() is not False and sending.is_completed()
    receiving = dist.irecv(x := make([0]), left, tag=3)
    dist.send(make([rank + 5]), right, tag=3)
    receiving.wait()
    assert x.tolist() == [left + 5]
    strided = make([rank, -1, rank + 1, -1])[::2]
    sending = dist.isend(strided, right)
    dist.recv(x := make([0, 0, 0, 0])[::2], left)
    assert sending.wait() is not False and x.tolist() == [left, left + 1]
    sending = dist.isend(strided, right)
    dist.irecv(x := make([0, 0, 0, 0])[::2], left).wait()
    assert sending.wait() is not False and x.tolist() == [left, left + 1]
    raises(ValueError, lambda: dist.P2POp(dist.irecv, x, left), "not contiguous")
    x = make([0])
    both = [dist.P2POp(dist.isend, make([rank + 7]), right), dist.P2POp(dist.irecv, x, left)]
    for each in dist.batch_isend_irecv(both):
        each.wait()
    assert x.tolist() == [left + 7]
    raises(ValueError, lambda: dist.P2POp(dist.send, x, left), "isend or irecv")


def objects(make, rank, size):
    data = ["foo", 12, {1: 2}] if rank == 1 else [None] * 3
    assert dist.broadcast_object_list(data, 1) is None and data == ["foo", 12, {1: 2}]
    everyone = [{"a": r} for r in range(size)]
    assert dist.all_gather_object({"a": rank}) == everyone
    assert dist.all_gather_object(given := [None] * size, {"a": rank}) is None and given == everyone
    expected = [f"data{r}" for r in range(size)]
    assert dist.gather_object(f"data{rank}") == (expected if rank == 0 else None)
    assert dist.gather_object(f"data{rank}", dst=1) == (expected if rank == 1 else None)
    dist.gather_object(f"data{rank}", given := [None] * size if rank == 1 else None, 1)
    assert given == (expected if rank == 1 else None)
    large = make(list(range(20000)), "int64")
    assert all(each.tolist() == large.tolist() for each in dist.all_gather_object(large))
    seeds = dist.all_gather_object(dist.sync_random_seed())
    assert len(set(seeds)) == 1 and 0 <= seeds[0] < 2**31


def many(make, rank, size):
    """Ranks after the first two contribute nothing to the sums."""
    loss, acc = ([0.5, 0.3, 0], [0.8, 0.9, 0])
    of = min(rank, 2)
    data = {"loss": make(loss[of]), "acc": make([acc[of]], "float64"), "n": make(rank, "int64")}
    before = data["n"]
    dist.all_reduce_dict(data)
    assert abs(float(data["loss"]) - 0.8) < 1e-6 and abs(float(data["acc"][0]) - 1.7) < 1e-12
    assert data["n"].tolist() == sum(range(size)) and str(data["n"].dtype).endswith("int64"), "types are kept"
    assert before.tolist() == rank, "tensors are replaced, not written to"
    assert list(data) == ["loss", "acc", "n"]
    dist.all_reduce_dict({})
    pairs = [[[1, 2], [3, 4]], [[2, 3], [4, 5]], [[0, 0], [0, 0]]]
    for settings in ({}, {"coalesce": False}, {"bucket_size_mb": 1}, {"bucket_size_mb": 1e-6}, {"op": "MAX"}):
        for kinds in (("float32",) * 2, ("int64", "float64")):
            params = [make(each, kind) for each, kind in zip(pairs[of], kinds)]
            dist.all_reduce_params((each for each in params), **settings)
            assert lists(params) == ([[2, 3], [4, 5]] if "op" in settings else [[3, 5], [7, 9]]), (settings, params)
    dist.all_reduce_params([make([rank, 4 * rank], "int64"), make([rank])], op="mean")
    dist.all_reduce_params([])


def results(make, rank, size):
    mine = [f"res{rank}_1", f"res{rank}_2"]
    interleaved = [f"res{r}_{i}" for i in (1, 2) for r in range(size)]
    for device in ("cpu", "gpu"):
        assert dist.collect_results(mine, 2 * size, device) == (interleaved if rank == 0 else None)
        assert dist.collect_results(mine, 2 * size - 1, device) == (interleaved[:-1] if rank == 0 else None)
    got = dist.collect_results([rank, None], 2 * size)
    assert got == ([*range(size), *[None] * size] if rank == 0 else None), "None is a result"
    got = dist.collect_results([rank] * (1 + (rank == 0)), 2 * size)
    assert got == ([*range(size), 0] if rank == 0 else None), "shares may differ in length"


def files(make, rank, size, folder):
    mine = [(rank, 1), None]
    expected = [*((r, 1) for r in range(size)), *[None] * size]
    shared = os.path.join(folder, "shared")
    assert dist.collect_results(mine, 9, tmpdir=shared) == (expected if rank == 0 else None)
    dist.barrier()
    assert not os.path.exists(shared), "the directory is left behind"
    own = os.path.join(folder, f"of-{rank}")
    text = raises(FileNotFoundError, lambda: dist.collect_results(mine, 9, tmpdir=own), "rank 1", "share")
    assert os.path.join(folder, "of-1") in text and "part_1.pkl" in text, text
    assert not os.path.exists(own), "the directory is left behind"
    raises(AssertionError, lambda: dist.collect_results(mine, 9, "gpu", own), own, "None")
    place = "/dev/null/x" if rank == 1 else own
    raises(NotADirectoryError, lambda: dist.collect_results(mine, 9, tmpdir=place), "rank 1", "/dev/null/x")
    assert not os.path.exists(own), "the directory is left behind"
    kind, text = (ValueError, "stays at home") if rank == 1 else (RuntimeError, "rank 1: ValueError")
    unsendable_one = [Unsendable() if rank == 1 else 0]
    raises(kind, lambda: dist.collect_results(unsendable_one, 2, tmpdir=shared), text)
    for i in range(60):
        got = dist.collect_results([(rank, i)], 2, tmpdir=shared)
        assert got == ([(0, i), (1, i)] if rank == 0 else None)
    dist.barrier()
    assert not os.path.exists(shared), "the directory is left behind"
    dist.barrier()
    if rank == 0:
        os.makedirs(shared), open(os.path.join(shared, "kept"), "w").close()
    dist.collect_results(mine, 9, tmpdir=shared), dist.barrier()
    assert os.listdir(shared) == ["kept"]


def groups(make, rank, size):
    assert dist.get_rank() == rank and dist.get_world_size() == size and dist.get_dist_info() == (rank, size)
    assert dist.is_distributed() and dist.is_main_process() == (rank == 0)
    assert dist.master_only(lambda: rank)() == (0 if rank == 0 else None)
    raises(RuntimeError, dist.get_local_size, "init_local_group")
    raises(ValueError, lambda: dist.init_local_group(rank + 1, 1), f"rank {rank}")
    dist.init_local_group(rank, 1)
    assert (dist.get_local_rank(), dist.get_local_size()) == (0, 1)
    dist.init_local_group(0, size)
    assert (dist.get_local_rank(), dist.get_local_size()) == (rank, size)
    upper = dist.new_group(list(range(1, size)))
    dist.all_reduce(x := make([rank]), group=upper)
    assert x.tolist() == [sum(range(size)) if rank else 0]
    if rank:
        assert dist.get_rank(upper) == rank - 1 and dist.is_main_process(upper) == (rank == 1)
        assert dist.all_gather_object(rank, upper) == list(range(1, size))
        dist.broadcast_object_list(data := [rank], 1, upper)
        assert data == [1], "ranks that a call names are those of all"
        assert dist.gather_object(rank, 1, upper) == (list(range(1, size)) if rank == 1 else None)
        assert lists(dist.gather(make([rank]), 1, upper)) == ([[r] for r in range(1, size)] if rank == 1 else [])
        assert len(set(dist.all_gather_object(dist.sync_random_seed(upper), upper))) == 1
        dist.all_reduce_params(params := [make([rank]), make([1])], group=upper)
        assert lists(params) == [[sum(range(size))], [size - 1]]
        if size > 2:
            wrong = [make([1] * rank)]
            raises(Mismatch, lambda: dist.all_reduce_params(wrong, group=upper), "rank 2 passes", "rank 1 passes")
    else:
        assert dist.all_gather(x, upper) == [] and dist.all_gather_object(0, upper) == []
        assert dist.gather_object(0, 1, upper) is None and dist.barrier(upper) is None
    dist.barrier()
    dist.destroy_group(upper)


def differences(make, rank, size):
    """Ranks pass different things: every rank gets an error that names two of them, and the group still works."""
    def told(call, *parts):
        texts = dist.all_gather_object(raises(Mismatch, call, "rank 1 passes", "rank 0 passes", *parts))
        assert len(set(texts)) == 1, texts

    last = rank == size - 1
    odd = rank == 1
    told(lambda: dist.all_reduce_dict({"b" if odd else "a": make([1])}), "['b']", "['a']")
    told(lambda: dist.all_reduce_dict({"a": make([1]), **({"b": make([1])} if odd else {})}), "2 tensors", "['b']")
    told(lambda: dist.all_reduce_dict({"a": make([1], "float64" if odd else "float32")}), "float64", "float32")
    told(lambda: dist.all_reduce_dict({"a": make([1] * (2 if odd else 1))}), "(2,)", "(1,)")
    told(lambda: dist.all_reduce_dict({"a": 1.0 if odd else make([1])}), "float, which is no tensor")
    told(lambda: dist.all_reduce_dict({"a": make([1])}, "max" if odd else "sum"), "max", "sum")
    told(lambda: dist.all_reduce_params([make([1])] * (3 if odd else 2)), "3 tensors", "2 tensors")
    told(lambda: dist.all_reduce_params([make([1])], coalesce=not odd), "coalesce=False")
    raises(TypeError, lambda: dist.all_reduce_dict({"a": 1.0}), "item ['a'] is float", "expected a tensor")
    if size > 2:
        raises(Mismatch, lambda: dist.all_reduce_params([make([1] * (1 + last))]), f"rank {size - 1} passes", "rank 0")

    def broadcast():
        dist.broadcast_object_list([None] * (3 if odd else 2))

    if odd:
        raises(Mismatch, broadcast, "rank 1 has a list of 3", "rank 0 sends 2")
    else:
        broadcast()
    raises(ValueError, lambda: dist.all_gather_object([None], 1), f"a list of {size}")
    dist.all_reduce(x := make([1]))
    assert x.tolist() == [size], "the group works on"


class Unsendable:
    def __reduce__(self):
        raise ValueError("this one stays at home")


def unsendable(make, rank, size):
    """A rank cannot pickle its object: its own error is raised there, and no other rank waits."""
    odd = rank == 1
    mine = Unsendable() if odd else make([rank])
    kind, text = (ValueError, "stays at home") if odd else (RuntimeError, "rank 1 cannot send its object: ValueError")
    raises(kind, lambda: dist.all_gather_object(mine), text)
    raises(kind, lambda: dist.broadcast_object_list([mine], 1), text)
    for call in (dist.gather_object, lambda x: dist.collect_results([x], size)):
        if rank < 2:
            raises(kind, lambda call=call: call(mine), text)
        else:
            assert call(mine) is None
    upper = dist.new_group(list(range(1, size)))
    if rank and size > 2:
        raises(kind, lambda: dist.all_gather_object(mine, upper), text)
    assert dist.all_gather_object(rank) == list(range(size)), "the group works on"
    received = dist.all_gather_object(make(list(range(20000))))[1 - min(rank, 1)]
    received += 1
    assert received.tolist()[-1] == 20000, "what is received can be written to"


def outside(make, rank, size):
    """A rank outside a group; ranks that a group does not have."""
    lower = dist.new_group(list(range(size - 1)))
    if rank == size - 1:
        assert dist.all_gather_object(["a", "b"], lower) == []
        assert dist.all_gather_object([None], obj=0, group=lower) is None
        data = {"a": make([1])}
        dist.all_reduce_dict(data, group=lower), dist.all_reduce_params([data["a"]], group=lower)
        dist.broadcast_object_list(["a"], 0, lower)
        assert data["a"].tolist() == [1]
    elif size > 2:
        assert dist.all_gather_object(["a", rank], lower) == [["a", r] for r in range(size - 1)]
        has = f"the ranks {list(range(size - 1))}"
        raises(ValueError, lambda: dist.gather_object(0, size - 1, lower), f"dst is {size - 1}", has)
        raises(ValueError, lambda: dist.broadcast_object_list([0], size - 1, lower), f"src is {size - 1}", has)
    raises(ValueError, lambda: dist.gather_object(0, size), f"dst is {size}", f"{list(range(size))}")


def shared_memory(make, rank, size):
    """A tensor that is in the list twice is reduced once; so are elements that two tensors share."""
    mean = (size + 1) / 2
    for settings in ({}, {"coalesce": False}, {"bucket_size_mb": 1e-6}):
        w, other = make([rank + 1] * 2), make([rank + 1])
        dist.all_reduce_params([w, other, w, w[:]], op="mean", **settings)
        assert (w.tolist(), other.tolist()) == ([mean] * 2, [mean]), settings
        w = make([rank + i for i in range(4)])
        dist.all_reduce_params([w[:3], w[1:], other], op="mean", **settings)
        assert w.tolist() == [mean - 1 + i for i in range(4)], settings
    square = make([[1, 2], [3, 4]])
    dist.all_reduce_params([square[:, 0], square[:, 1], make([]), make([])])
    assert square.tolist() == [[size, 2 * size], [3 * size, 4 * size]]
    one = make([1])
    both = [one, one] if rank == 1 else [one, make([1])]
    raises(Mismatch, lambda: dist.all_reduce_params(both), "rank 1 passes [1]", "the same memory as [0]")


def odd_keys(make, rank, size):
    """Keys that cannot be sorted are compared and reduced, too."""
    data = {1: make([1]), "a": make([2]), None: make([3])}
    dist.all_reduce_dict(data := data if rank else dict(reversed(data.items())))
    assert {key: each.tolist() for key, each in data.items()} == {1: [size], "a": [2 * size], None: [3 * size]}
    mixed = {1: make([1]), ("a" if rank == 1 else 2): make([1])}
    raises(Mismatch, lambda: dist.all_reduce_dict(mixed), "rank 1 passes ['a']", "rank 0 passes [2]")


EVERYTHING = (
    reductions, moves, messages, objects, many, results, groups, differences,
    unsendable, outside, shared_memory, odd_keys,
)  # fmt: skip
