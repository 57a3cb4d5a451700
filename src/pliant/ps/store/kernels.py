"""The compiled loops of an embedding table: find, make, read, update and remove rows.

A row is a record in a slab: id (int64), number of updates and iteration of the last one (uint32 each), the value, then each
state of the optimizer. The index has one open-addressed array per partition of the table; a slot is 0 or holds the upper half
of the id's hash and the row's number + 1. The slot's place comes from that same half, so an index grows without a look
at the rows, and the record that confirms a match is one that is needed anyway.

A random row of a large table is several cache misses. What costs time is not each of them but to wait for one after the
other, so the loops ask for memory some steps before they look at it: first the slots of ``BLOCK`` ids (``_locate``), then the
records themselves. The steps of an optimizer run over ``CHUNK`` rows at a time, so that what they have in common is looked at
once. A loop that runs out of room returns how far it came and leaves in ``head`` what is missing; the table provides it and
calls again from there.

All loops are in this one module, because numba keeps compiled code per file and does not notice that a function called from
another file has changed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pliant.ps.compiled.memory import carray, compiled, compiled_for_moments, hash_of, pointer, prefetch
from pliant.ps.store.optimizer_steps import ADAGRAD, ADAM, FTRL, MOMENTUM, NESTEROV, SGD

BLOCK = 512  # ids
CHUNK = 8  # rows
SLOTS_AHEAD = 16  # ids whose slots are on their way while another's is looked at
ROWS_AHEAD = 8  # rows on their way while another is worked on
HEADER = 4  # words (of 4 bytes) of a record before its value
EVER = 1 << 40  # an iteration after all
NEVER = np.uint32(0xFFFFFFFF)  # number of updates of a row that is marked to be removed

# head: what changes. USED rows were ever taken; FREE is the first of the list of given back ones (row + 1)
USED, FREE, ROOM, LIVE, WANTED = range(5)
NO_SLAB = -1  # WANTED: another slab; else the partition whose index must grow
# layout: what does not
DIM, STATES, WORDS, SLAB_BITS, SALT, SEED, PARTITIONS, MASK = range(8)
# begin: how a row begins
CONSTANT, UNIFORM, NORMAL = range(3)

_S11, _S32 = np.uint64(11), np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_ONE = np.uint64(1)


@compiled
def _partition_of(hashed: Any, mask: Any, partitions: Any) -> Any:
    if mask:
        return np.int64(hashed & np.uint64(mask))
    return np.int64(hashed % np.uint64(partitions))


@compiled
def _partition(hashed: Any, layout: Any) -> Any:
    return _partition_of(hashed, layout[MASK], layout[PARTITIONS])


@compiled
def _record(row: Any, slabs: Any, layout: Any) -> Any:
    bits = layout[SLAB_BITS]
    return slabs[row >> bits] + (row & ((1 << bits) - 1)) * layout[WORDS] * 4


@compiled
def _id_at(record: Any) -> Any:
    return carray(pointer(record), (1,), np.int64)[0]


@compiled
def _place(hashed: Any, bits: Any) -> Any:
    return np.int64((hashed >> _S32) >> np.uint64(32 - bits))


@compiled
def _find(row_id: Any, hashed: Any, partition: Any, index: Any, slabs: Any, layout: Any) -> Any:
    """The record of an id, or 0."""
    bits = index[partition, 1]
    slots = carray(pointer(index[partition, 0]), (1 << bits,), np.uint64)
    place = _place(hashed, bits)
    tag = hashed >> _S32
    while slots[place] != 0:
        if slots[place] >> _S32 == tag:
            record = _record(np.int64(slots[place] & _LOW) - 1, slabs, layout)
            if _id_at(record) == row_id:
                return record
        place = (place + 1) & ((1 << bits) - 1)
    return np.int64(0)


@compiled
def _put(slots: Any, bits: Any, slot: Any) -> None:
    place = np.int64((slot >> _S32) >> np.uint64(32 - bits))
    while slots[place] != 0:
        place = (place + 1) & ((1 << bits) - 1)
    slots[place] = slot


@compiled
def begin_values(out: Any, first: Any, seed: Any, row_id: Any, begin: Any) -> None:
    """The values of the elements ``first``, ``first`` + 1, … of a row before its first update."""
    kind = int(begin[0])
    if kind == CONSTANT:
        for i in range(out.size):
            out[i] = begin[1]
        return
    base = hash_of(np.uint64(seed) ^ hash_of(np.uint64(row_id)))
    unit = 1.0 / 9007199254740992.0  # 2^-53
    if kind == UNIFORM:
        for i in range(out.size):
            u = np.float64(hash_of(base + np.uint64(first + i)) >> _S11) * unit
            out[i] = begin[1] + (begin[2] - begin[1]) * u
        return
    for i in range(out.size):  # Box and Muller: an even element is the cosine of a pair, the odd one its sine
        pair = np.uint64((first + i) >> 1 << 1)
        u = np.float64((hash_of(base + pair) >> _S11) + _ONE) * unit
        angle = 2.0 * np.pi * unit * np.float64(hash_of(base + pair + _ONE) >> _S11)
        radius = np.sqrt(-2.0 * np.log(u))
        out[i] = begin[1] + begin[2] * radius * (np.sin(angle) if (first + i) & 1 else np.cos(angle))


@compiled
def _make(row_id: Any, hashed: Any, partition: Any, slabs: Any, index: Any, head: Any, layout: Any, begin: Any) -> Any:
    """A new record with its first values, or 0 if there is no room (``head`` says for what)."""
    bits = index[partition, 1]
    if (index[partition, 2] + 1) * 4 > (3 << bits):
        head[WANTED] = partition
        return np.int64(0)
    if head[FREE]:
        row = head[FREE] - 1
        record = _record(row, slabs, layout)
        head[FREE] = _id_at(record)
    elif head[USED] < head[ROOM]:
        row = head[USED]
        record = _record(row, slabs, layout)
        head[USED] += 1
    else:
        head[WANTED] = NO_SLAB
        return np.int64(0)
    slots = carray(pointer(index[partition, 0]), (1 << bits,), np.uint64)
    _put(slots, bits, (hashed >> _S32 << _S32) | np.uint64(row + 1))
    index[partition, 2] += 1
    head[LIVE] += 1
    carray(pointer(record), (1,), np.int64)[0] = row_id
    counters = carray(pointer(record + 8), (2,), np.uint32)
    counters[0] = 0
    counters[1] = 0
    dim = layout[DIM]
    begin_values(
        carray(pointer(record + 4 * HEADER), (dim,), np.float32), np.int64(0), np.uint64(layout[SEED]), row_id, begin
    )
    state = carray(pointer(record + 4 * (HEADER + dim)), (dim * layout[STATES],), np.float32)
    for i in range(state.size):
        state[i] = begin[3] if i < dim else 0.0
    return record


@compiled
def _last_line(size: Any) -> Any:
    """Bytes from the beginning of a record of this size to the last cache line that it may touch; it begins at a multiple of 16."""
    return (size + 111) // 64 * 64 - 64


@compiled
def _prefetch_record(record: Any, last: Any) -> None:
    """Every second line: the processor loads the one beside it, too. The first without a loop, which costs as much as they do."""
    prefetch(record)
    if last >= 128:
        prefetch(record + 128)
        if last >= 256:
            prefetch(record + 256)
            for line in range(384, last + 1, 128):
                prefetch(record + line)


@compiled_for_moments
def check_ids(ids: Any, layout: Any, owned: Any) -> Any:
    """0 if all ids are good; -(i + 1) if the i-th is negative, i + 1 if its partition is not owned."""
    for i in range(ids.size):
        if ids[i] < 0:
            return -(i + 1)
        if not owned[_partition(hash_of(np.uint64(ids[i]) ^ np.uint64(layout[SALT])), layout)]:
            return i + 1
    return 0


@compiled
def _locate(ids: Any, hashes: Any, records: Any, slabs: Any, index: Any, layout: Any) -> None:
    """The record of each id, or 0, by its slot alone: rarely it is of another id, so whoever uses it looks."""
    salt, mask, partitions = np.uint64(layout[SALT]), layout[MASK], layout[PARTITIONS]
    slab_bits, row_bytes = layout[SLAB_BITS], 4 * layout[WORDS]
    for i in range(min(SLOTS_AHEAD, ids.size)):
        hashes[i] = _ask_for_slot(ids[i], salt, mask, partitions, index)
    for i in range(ids.size):
        if i + SLOTS_AHEAD < ids.size:
            hashes[i + SLOTS_AHEAD] = _ask_for_slot(ids[i + SLOTS_AHEAD], salt, mask, partitions, index)
        hashed = hashes[i]
        partition = _partition_of(hashed, mask, partitions)
        bits = index[partition, 1]
        slots = carray(pointer(index[partition, 0]), (1 << bits,), np.uint64)
        tag = hashed >> _S32
        place = _place(hashed, bits)
        slot = slots[place]
        while slot != 0 and slot >> _S32 != tag:
            place = (place + 1) & ((1 << bits) - 1)
            slot = slots[place]
        records[i] = 0
        if slot != 0:
            row = np.int64(slot & _LOW) - 1
            records[i] = slabs[row >> slab_bits] + (row & ((1 << slab_bits) - 1)) * row_bytes


@compiled
def _ask_for_slot(row_id: Any, salt: Any, mask: Any, partitions: Any, index: Any) -> Any:
    """The hash of an id, whose slot is on its way."""
    hashed = hash_of(np.uint64(row_id) ^ salt)
    partition = _partition_of(hashed, mask, partitions)
    prefetch(index[partition, 0] + 8 * _place(hashed, index[partition, 1]))
    return hashed


@compiled
def _load_ahead(records: Any, place: Any, last: Any) -> None:
    """Begin to load the record that will be used ``ROWS_AHEAD`` rows later."""
    if place + ROWS_AHEAD < records.size:
        _prefetch_record(records[place + ROWS_AHEAD], last)


@compiled
def read_values(ids: Any, out: Any, slabs: Any, index: Any, layout: Any, begin: Any) -> None:
    """Values of rows into ``out`` (flat), those which do not exist included. The ids are checked."""
    dim = layout[DIM]
    last = _last_line(4 * (HEADER + dim))
    hashes = np.empty(BLOCK, np.uint64)
    located = np.empty(BLOCK, np.int64)
    for first in range(0, ids.size, BLOCK):
        some = ids[first : first + BLOCK]
        records = located[: some.size]
        _locate(some, hashes, records, slabs, index, layout)
        missing = False
        for j in range(some.size):
            _load_ahead(records, j, last)
            record = records[j]
            if record and _id_at(record) == some[j]:
                source = _floats(record + 4 * HEADER, dim)
                target = out[(first + j) * dim : (first + j + 1) * dim]
                for i in range(dim):
                    target[i] = source[i]
            else:
                missing = True
                records[j] = 0
        for j in range(some.size if missing else 0):
            if records[j]:
                continue
            target = out[(first + j) * dim : (first + j + 1) * dim]
            record = _find(some[j], hashes[j], _partition(hashes[j], layout), index, slabs, layout)
            if record:
                target[:] = _floats(record + 4 * HEADER, dim)
            else:
                begin_values(target, np.int64(0), np.uint64(layout[SEED]), some[j], begin)


@compiled
def steps(values: Any, gradients: Any, states: Any, count: Any, weight: Any, hyper: Any) -> None:
    """One step on each of several values of ``count`` floats: ``values`` are their addresses, their gradients (times ``weight``)
    follow one another at the address ``gradients``, and a value's states are ``states`` bytes after it."""
    kind = int(hyper[0])
    w, rate, decay = np.float32(weight), np.float32(hyper[1]), np.float32(hyper[2])
    if kind == SGD:
        for j in range(values.size):
            p, g = _floats(values[j], count), _floats(gradients + 4 * count * j, count)
            for i in range(count):
                p[i] -= rate * (w * g[i] + decay * p[i])
    elif kind in (MOMENTUM, NESTEROV):
        momentum = np.float32(hyper[3])
        for j in range(values.size):
            p, g = _floats(values[j], count), _floats(gradients + 4 * count * j, count)
            _momentum(p, g, _floats(values[j] + states, count), w, rate, decay, momentum, kind == NESTEROV)
    elif kind == ADAGRAD:
        epsilon = np.float32(hyper[3])
        for j in range(values.size):
            p, g = _floats(values[j], count), _floats(gradients + 4 * count * j, count)
            a = _floats(values[j] + states, count)
            for i in range(count):
                d = w * g[i] + decay * p[i]
                a[i] += d * d
                p[i] -= rate * d / (np.sqrt(a[i]) + epsilon)
    elif kind == FTRL:
        for j in range(values.size):
            p, g = _floats(values[j], count), _floats(gradients + 4 * count * j, count)
            a = _floats(values[j] + states, count)
            _ftrl(p, g, a, _floats(values[j] + states + 4 * count, count), w, hyper)
    else:
        for j in range(values.size):
            p, g = _floats(values[j], count), _floats(gradients + 4 * count * j, count)
            a = _floats(values[j] + states, count)
            b = _floats(values[j] + states + 4 * count, count)
            c = _floats(values[j] + states + 8 * count, count)  # AMSGrad's only; nobody looks at it for Adam
            _adam(p, g, a, b, c, w, rate, decay, hyper, kind != ADAM)


@compiled
def _floats(address: Any, count: Any) -> Any:
    return carray(pointer(address), (count,), np.float32)


@compiled
def _momentum(p: Any, g: Any, a: Any, w: Any, rate: Any, decay: Any, momentum: Any, nesterov: Any) -> None:
    if nesterov:
        for i in range(p.size):
            d = w * g[i] + decay * p[i]
            a[i] = momentum * a[i] + d
            p[i] -= rate * (d + momentum * a[i])
    else:
        for i in range(p.size):
            a[i] = momentum * a[i] + (w * g[i] + decay * p[i])
            p[i] -= rate * a[i]


@compiled
def _adam(p: Any, g: Any, a: Any, b: Any, c: Any, w: Any, rate: Any, decay: Any, hyper: Any, amsgrad: Any) -> None:
    new1, beta2, new2 = np.float32(hyper[3]), np.float32(hyper[4]), np.float32(hyper[5])
    epsilon, correction, shrink = np.float32(hyper[6]), np.float32(hyper[7]), np.float32(hyper[8])
    for i in range(p.size):
        q = p[i] * shrink
        d = w * g[i] + decay * q
        a[i] += new1 * (d - a[i])
        square = beta2 * b[i] + new2 * d * d
        b[i] = square
        if amsgrad:
            square = max(c[i], square)
            c[i] = square
        p[i] = q - rate * a[i] / (np.sqrt(square) * correction + epsilon)


@compiled
def _ftrl(p: Any, g: Any, accumulator: Any, linear: Any, w: Any, hyper: Any) -> None:
    """In double precision: the new value is a quotient of sums that grow with the number of steps."""
    rate, decay, l1, ridge, power = hyper[1], hyper[2], hyper[3], hyper[4], hyper[5]
    for i in range(p.size):
        d = float(w) * g[i] + decay * p[i]
        old = float(accumulator[i])
        new = old + d * d
        if power == 0.5:
            old, power_of_new = np.sqrt(old), np.sqrt(new)
        else:
            old, power_of_new = old**power, new**power
        z = linear[i] + d - (power_of_new - old) / rate * p[i]
        accumulator[i] = new
        linear[i] = z
        if abs(z) > l1:
            p[i] = ((l1 if z > 0 else -l1) - z) / (power_of_new / rate + ridge)
        else:
            p[i] = 0.0


@compiled
def update_rows(
    ids: Any,
    gradients: Any,
    start: Any,
    weight: Any,
    iteration: Any,
    hyper: Any,
    slabs: Any,
    index: Any,
    head: Any,
    layout: Any,
    begin: Any,
) -> Any:
    """One step of the optimizer on each row from ``start`` on, made where it does not exist; how far it came. The ids are
    checked, and none comes twice. ``gradients`` is the address of the gradients."""
    dim = layout[DIM]
    last = _last_line(4 * layout[WORDS])
    hashes = np.empty(BLOCK, np.uint64)
    located = np.empty(BLOCK, np.int64)
    values = np.empty(CHUNK, np.int64)
    for first in range(start, ids.size, BLOCK):
        some = ids[first : first + BLOCK]
        records = located[: some.size]
        _locate(some, hashes, records, slabs, index, layout)
        done = 0
        while done < some.size:
            count = 0
            for j in range(done, min(done + CHUNK, some.size)):
                _load_ahead(records, j, last)
                record = records[j]
                if not record or _id_at(record) != some[j]:
                    partition = _partition(hashes[j], layout)
                    record = _find(some[j], hashes[j], partition, index, slabs, layout)
                    if not record:
                        record = _make(some[j], hashes[j], partition, slabs, index, head, layout, begin)
                        if not record:
                            break
                counters = carray(pointer(record + 8), (2,), np.uint32)
                counters[0] = min(counters[0] + 1, NEVER - 1)
                counters[1] = iteration
                values[count] = record + 4 * HEADER
                count += 1
            steps(values[:count], gradients + 4 * dim * (first + done), 4 * dim, dim, weight, hyper)
            done += count
            if count < CHUNK and done < some.size:
                return first + done
    return ids.size


@compiled
def grow_index(old: Any, new: Any, bits: Any) -> None:
    """Move all slots of a partition's index into a larger one (of 1 << bits slots, all 0)."""
    for i in range(old.size):
        if old[i]:
            _put(new, bits, old[i])


@compiled
def _changed_between(record: Any, since: Any, until: Any) -> Any:
    """Whether a row last changed after iteration ``since`` (-1: whenever) and not after ``until``."""
    changed = np.int64(carray(pointer(record + 8), (2,), np.uint32)[1])
    return (since < 0 or changed > since) and changed <= until


@compiled
def list_rows(partition: Any, since: Any, until: Any, out: Any, slabs: Any, index: Any, layout: Any) -> Any:
    """Records of a partition's rows that last changed after iteration ``since`` (-1: all) and not after ``until`` into ``out``;
    how many."""
    slots = carray(pointer(index[partition, 0]), (1 << index[partition, 1],), np.uint64)
    count = 0
    for i in range(slots.size):
        if slots[i]:
            record = _record(np.int64(slots[i] & _LOW) - 1, slabs, layout)
            if _changed_between(record, since, until):
                out[count] = record
                count += 1
    return count


@compiled
def list_unchanged(
    ids: Any, partitions: Any, since: Any, until: Any, out: Any, slabs: Any, index: Any, layout: Any
) -> Any:
    """The same of rows by their ids, in these partitions only; ids without a row are passed over."""
    count = 0
    for i in range(ids.size):
        hashed = hash_of(np.uint64(ids[i]) ^ np.uint64(layout[SALT]))
        partition = _partition(hashed, layout)
        if not partitions[partition]:
            continue
        record = _find(ids[i], hashed, partition, index, slabs, layout)
        if record and _changed_between(record, since, until):
            out[count] = record
            count += 1
    return count


@compiled
def read_records(records: Any, ids: Any, data: Any, counters: Any, layout: Any) -> None:
    """Copy whole records out: ids, data (flat) and counters (flat)."""
    words = layout[DIM] * (1 + layout[STATES])
    last = _last_line(4 * (HEADER + words))
    for i in range(records.size):
        if i + 8 < records.size:
            _prefetch_record(records[i + 8], last)
        ids[i] = _id_at(records[i])
        both = carray(pointer(records[i] + 8), (2,), np.uint32)
        counters[2 * i] = both[0]
        counters[2 * i + 1] = both[1]
        source = carray(pointer(records[i] + 4 * HEADER), (words,), np.float32)
        target = data[i * words : (i + 1) * words]
        for k in range(words):
            target[k] = source[k]


@compiled
def write_records(
    ids: Any,
    data: Any,
    counters: Any,
    start: Any,
    slabs: Any,
    index: Any,
    head: Any,
    layout: Any,
    begin: Any,
) -> Any:
    """Copy whole records in from ``start`` on, over what is there; how far it came."""
    words = layout[DIM] * (1 + layout[STATES])
    for i in range(start, ids.size):
        hashed = hash_of(np.uint64(ids[i]) ^ np.uint64(layout[SALT]))
        partition = _partition(hashed, layout)
        record = _find(ids[i], hashed, partition, index, slabs, layout)
        if not record:
            record = _make(ids[i], hashed, partition, slabs, index, head, layout, begin)
            if not record:
                return i
        both = carray(pointer(record + 8), (2,), np.uint32)
        both[0] = counters[2 * i]
        both[1] = counters[2 * i + 1]
        target = carray(pointer(record + 4 * HEADER), (words,), np.float32)
        source = data[i * words : (i + 1) * words]
        for k in range(words):
            target[k] = source[k]
    return ids.size


@compiled
def mark_rows(ids: Any, touched: Any, slabs: Any, index: Any, layout: Any) -> None:
    """Mark rows to be removed by ``remove_rows`` and their partitions in ``touched``; ids without a row are passed over."""
    for i in range(ids.size):
        hashed = hash_of(np.uint64(ids[i]) ^ np.uint64(layout[SALT]))
        partition = _partition(hashed, layout)
        record = _find(ids[i], hashed, partition, index, slabs, layout)
        if record:
            carray(pointer(record + 8), (2,), np.uint32)[0] = NEVER
            touched[partition] = 1


@compiled
def remove_rows(
    partition: Any, before: Any, fewer: Any, gone: Any, slabs: Any, index: Any, head: Any, layout: Any
) -> Any:
    """Remove rows of a partition: those marked, and those whose last update was at ``before`` or earlier (-1: none) and which
    had fewer than ``fewer`` updates (0: however many). Their ids go to ``gone``; how many."""
    bits = index[partition, 1]
    slots = carray(pointer(index[partition, 0]), (1 << bits,), np.uint64)
    kept = np.empty(slots.size, np.uint64)
    stay = 0
    count = 0
    for i in range(slots.size):
        if not slots[i]:
            continue
        row = np.int64(slots[i] & _LOW) - 1
        record = _record(row, slabs, layout)
        both = carray(pointer(record + 8), (2,), np.uint32)
        old = np.int64(both[1]) <= before and (fewer == 0 or np.int64(both[0]) < fewer)
        if old or both[0] == NEVER:
            gone[count] = _id_at(record)
            count += 1
            carray(pointer(record), (1,), np.int64)[0] = head[FREE]
            head[FREE] = row + 1
        else:
            kept[stay] = slots[i]
            stay += 1
    if count:
        for i in range(slots.size):
            slots[i] = 0
        for i in range(stay):
            _put(slots, bits, kept[i])
        index[partition, 2] -= count
        head[LIVE] -= count
    return count
