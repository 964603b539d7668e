#!/usr/bin/python3
"""Writes megatron_order.json: sample orders by numpy's own RandomState, from the recipe of formats.md 1.2.

The recipe is followed in the plainest way (the whole token stream is laid out), so that it shares nothing with the
C++ reader. Run it with Debian's python3-numpy: tests/golden/data/make_megatron_order.py > megatron_order.json
"""
import json
import math

import numpy

# document lengths, split shares, which split, sequence length, samples asked for, seed
CASES = [
    ([4, 3, 6], [100, 0, 0], 0, 4, 6, 1234),
    ([4, 3, 6], [100, 0, 0], 0, 4, 4, 1234),
    ([5, 0, 9, 1, 17, 3], [98, 2, 0], 0, 3, 10, 7),
    ([7] * 40, [90, 8, 2], 0, 16, 31, 1234),
    ([7] * 40, [90, 8, 2], 1, 5, 9, 1234),
    (list(range(1, 31)), [949, 50, 1], 0, 11, 200, 4294967295),
    (list(range(1, 31)), [949, 50, 1], 0, 11, 170, 0),
    ([100, 1, 1, 1, 250, 3, 64], [1, 1, 2], 2, 8, 1000, 42),
    ([13] * 150, [99, 1, 0], 0, 64, 77, 5),
]


def split_bounds(shares, count):
    total = sum(shares)
    edges, reached = [0], 0.0
    for share in shares:
        reached += share / total
        edges.append(int(round(reached * count)))
    return edges


def order(lengths, shares, split, seq_len, wanted, seed):
    edges = split_bounds(shares, len(lengths))
    documents = numpy.arange(edges[split], edges[split + 1], dtype=numpy.int32)
    tokens = sum(lengths[d] for d in documents)
    epochs = 1
    while epochs * tokens < wanted * seq_len + 1:
        epochs += 1
    before = ((epochs - 1) * tokens - 1) // seq_len
    separate = epochs > 1 and wanted - before < int(0.80 * ((tokens - 1) // seq_len))
    random = numpy.random.RandomState(seed)
    if separate:
        head, tail = numpy.tile(documents, epochs - 1), documents.copy()
        random.shuffle(head)
        random.shuffle(tail)
        document_index = numpy.concatenate([head, tail])
    else:
        document_index = numpy.tile(documents, epochs)
        random.shuffle(document_index)
    samples = (epochs * tokens - 1) // seq_len
    cut = before if separate else samples
    head = numpy.arange(cut, dtype=numpy.uint32)
    random.shuffle(head)
    tail = numpy.arange(cut, samples, dtype=numpy.uint32)
    if separate:
        random.shuffle(tail)
    shuffle_index = numpy.concatenate([head, tail])
    starts = numpy.cumsum([0] + lengths)
    stream = [int(starts[d]) + i for d in document_index for i in range(lengths[d])]
    first_tokens = [stream[int(k) * seq_len:int(k) * seq_len + seq_len + 1] for k in shuffle_index]
    checksum = 0
    for sample in first_tokens:
        for token in sample:
            checksum = (checksum * 31 + token) % (2**56 - 5)
    return {
        "lengths": lengths, "split": ",".join(map(str, shares)), "which": split, "seq_len": seq_len,
        "samples": wanted, "seed": seed, "separate_final_epoch": separate, "epochs": epochs,
        "document_index": document_index.tolist(), "shuffle_index": shuffle_index.tolist(),
        "last_sample": first_tokens[-1], "checksum": checksum,
    }


def blend(weights, samples):
    """Greedy choice of the source with the largest deficit, of shares that are divided by numpy's sum."""
    shares = (numpy.array(weights) / numpy.sum(numpy.array(weights))).tolist()
    taken, picks = [0] * len(weights), []
    for k in range(samples):
        errors = [w * max(k, 1) - t for w, t in zip(shares, taken)]
        best = errors.index(max(errors))
        picks.append(best)
        taken[best] += 1
    return {"weights": weights, "shares": shares, "picks": picks,
            "asked": [math.ceil(math.ceil(samples * w) * 1.005) for w in shares]}


def main():
    cases = [order(*case) for case in CASES]
    blends = [blend([0.3, 0.7], 50), blend([0.5, 0.5], 9), blend([0.2, 0.3, 0.5], 64), blend([0.6, 0.4], 100),
              blend([0.1, 0.2, 0.7], 100), blend([0.1] * 10, 100), blend([0.01 * (i % 7 + 1) for i in range(150)], 300)]
    shuffles = []
    for seed, count in ((1234, 20), (1, 1), (99, 1000)):
        values = numpy.arange(count)
        numpy.random.RandomState(seed).shuffle(values)
        shuffles.append({"seed": seed, "values": values.tolist()})
    lines = [f' "{name}": [\n  ' + ",\n  ".join(json.dumps(row) for row in rows) + "\n ]"
             for name, rows in (("orders", cases), ("blends", blends), ("shuffles", shuffles))]
    print("{\n" + ",\n".join(lines) + "\n}")


if __name__ == "__main__":
    main()
