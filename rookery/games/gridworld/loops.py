"""The loops of the grid engine, compiled: over worlds, cells, layers and windows.

A spot is one cell of one world: world × cells per world + cell. `layers` is (layers,
spots), and one `layer` is (spots,). `cells` has one cell per world, or several rows of
them. Like numpy's `take`, loops count negative spots from the end. Where a game passes a
cell that does not exist, they stop and return its place in `cells`; otherwise they return
OK.
"""

from __future__ import annotations

import numpy as np

from rookery.kernels import kernel
from rookery.rng import philox
from rookery.specs import Array

OK = -1
NEVER = np.iinfo(np.int32).max
"""The turn in which things vanish that have no lifetime."""
TWO32 = 2.0**32
BLOCK_BITS = 20
"""The bits that number the blocks of a draw, as in `Stream.bits`."""


@kernel
def position(index: int, length: int) -> int:
    """Return a position in an array, counted from its start; OK (-1) if there is none."""
    if index < 0:
        index += length
    return index if 0 <= index < length else -1


@kernel
def at(array: Array, world: int, cell: int) -> float:
    """Return an entry of an array that has one for each world, or 1, and cell, or 1."""
    return array[world if len(array) > 1 else 0, cell if array.shape[1] > 1 else 0]


# The contents of cells.


@kernel
def add_values(
    layers: Array, cells: Array, worlds: int, size: int, values: Array, totals: Array
) -> int:
    """Add up the values of the things in each cell, over all layers."""
    for i in range(len(cells)):
        spot = position(i % worlds * size + cells[i], layers.shape[1])
        if spot < 0:
            return i
        totals[i] = values[layers[0, spot]]
        for layer in range(1, len(layers)):
            totals[i] += values[layers[layer, spot]]
    return OK


@kernel
def is_solid(layers: Array, spot: int, solids: Array) -> bool:
    """Return whether a spot has one of the kinds marked in `solids`, on any layer."""
    found = False
    for layer in range(len(layers)):
        found |= solids[layers[layer, spot]]
    return found


@kernel
def find_solid(
    layers: Array, cells: Array, worlds: int, size: int, solids: Array, found: Array
) -> int:
    """Find the cells with something solid on any layer."""
    for i in range(len(cells)):
        spot = position(i % worlds * size + cells[i], layers.shape[1])
        if spot < 0:
            return i
        found[i] = is_solid(layers, spot, solids)
    return OK


@kernel
def find_kind(
    layer: Array, cells: Array, worlds: int, size: int, kind: int, found: Array
) -> int:
    """Find the cells with a thing of one kind, on its layer."""
    for i in range(len(cells)):
        spot = position(i % worlds * size + cells[i], len(layer))
        if spot < 0:
            return i
        found[i] = layer[spot] == kind
    return OK


@kernel
def count_kind(layer: Array, size: int, kind: int, counts: Array) -> None:
    """Count the things of one kind in each world."""
    wanted = np.uint8(kind)
    for world in range(len(counts)):
        count = 0
        for spot in range(world * size, (world + 1) * size):
            count += layer[spot] == wanted
        counts[world] = count


@kernel
def count_near(
    layer: Array,
    kind: int,
    radius: int,
    inside: Array,
    width: int,
    size: int,
    counts: Array,
) -> None:
    """Count the other things of a kind within some steps of each cell on the map."""
    height = len(inside) // width
    for start in range(0, len(layer), size):
        for row in range(height):
            for column in range(width):
                if layer[start + inside[row * width + column]] != kind:
                    continue
                for down in range(max(-radius, -row), min(radius, height - 1 - row) + 1):
                    slack = radius - abs(down)
                    first, last = max(column - slack, 0), min(column + slack, width - 1)
                    for near in range(first, last + 1):
                        if down != 0 or near != column:
                            counts[start + inside[(row + down) * width + near]] += 1


@kernel
def lay(
    layer: Array,
    cells: Array,
    where: Array,
    outside: Array,
    size: int,
    kind: int,
    lifetime: int,
    turn: Array,
    expiry: Array,
) -> int:
    """Put a kind into cells of a layer; 0 empties them.

    Cells outside the map are left alone, unless `outside` is empty. `expiry` is empty if
    no kind of the layer has a lifetime.
    """
    for i in range(len(cells)):
        world = i % len(where)
        if not where[world]:
            continue
        if len(outside):
            cell = position(cells[i], size)
            if cell < 0:
                return i
            if outside[cell]:
                continue
        spot = position(world * size + cells[i], len(layer))
        if spot < 0:
            return i
        layer[spot] = kind
        if len(expiry):
            expiry[spot] = turn[spot // size] + lifetime if lifetime else NEVER
    return OK


@kernel
def expire(layer: Array, expiry: Array, turn: Array, size: int) -> None:
    """Remove the things on a layer whose lifetime is over."""
    for world in range(len(turn)):
        now = np.int32(turn[world])
        for spot in range(world * size, (world + 1) * size):
            layer[spot] = layer[spot] if expiry[spot] > now else np.uint8(0)


# Random numbers, addressed by world, episode, turn and draw.


@kernel
def skipped(table: Array, bits: np.uint64) -> int:
    """Return how many entries of a sorted table are at most `bits`."""
    low, high = 0, len(table)
    while low < high:
        middle = (low + high) // 2
        if table[middle] <= bits:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def draw_rare(
    keys: Array,
    numbers: Array,
    episode: Array,
    turn: Array,
    draw: int,
    table: Array,
    count: int,
    slots: Array,
    size: int,
    spots: Array,
    shares: Array,
) -> int:
    """Draw an event with equal probability in each slot; return the number of events.

    Instead of a number per slot, the number of slots until the next event is drawn, from
    `table`: the probabilities, in 2**-32, that fewer than 1, 2, … slots are skipped. A draw
    consists of `count` skips, then `count` shares for the events after them, then skips
    again. Only blocks that are needed are computed.
    """
    events, start = 0, np.uint64(draw << BLOCK_BITS)
    for world in range(len(numbers)):
        x, y, z = (
            np.uint64(numbers[world]),
            np.uint64(episode[world]),
            np.uint64(turn[world]),
        )
        first, skip, reached = 0, 0, -1
        skip_block, share_block = 0, -1
        skips = share_bits = philox(start, x, y, z, keys)
        while True:
            i = first + skip
            if i // 4 != skip_block:
                skip_block = i // 4
                skips = philox(start + np.uint64(skip_block), x, y, z, keys)
            reached += 1 + skipped(table, skips[i & 3])
            if reached >= len(slots):
                break
            i += count
            if i // 4 != share_block:
                share_block = i // 4
                share_bits = philox(start + np.uint64(share_block), x, y, z, keys)
            spots[events] = world * size + slots[reached]
            shares[events] = share_bits[i & 3] / TWO32
            events += 1
            skip += 1
            if skip == count:
                first, skip = first + 2 * count, 0
    return events


@kernel
def draw_by_cell(
    keys: Array,
    numbers: Array,
    episode: Array,
    turn: Array,
    draw: int,
    chance: Array,
    mask: Array,
    slots: Array,
    size: int,
    spots: Array,
    shares: Array,
) -> int:
    """Draw an event in each slot with its own probability; return the number of events.

    Slots outside `mask` have none. Only blocks that are needed are computed.
    """
    events, start = 0, np.uint64(draw << BLOCK_BITS)
    for world in range(len(numbers)):
        x, y, z = (
            np.uint64(numbers[world]),
            np.uint64(episode[world]),
            np.uint64(turn[world]),
        )
        block = 0
        bits = philox(start, x, y, z, keys)
        for i in range(len(slots)):
            limit = at(chance, world, slots[i]) * TWO32
            if limit > 0.0 and at(mask, world, slots[i]):
                if i // 4 != block:
                    block = i // 4
                    bits = philox(start + np.uint64(block), x, y, z, keys)
                if bits[i & 3] < limit:
                    spots[events] = world * size + slots[i]
                    shares[events] = bits[i & 3] / limit
                    events += 1
    return events


@kernel
def sow(
    layers: Array,
    layer: Array,
    spots: Array,
    shares: Array,
    mask: Array,
    kinds: Array,
    lifetimes: Array,
    turn: Array,
    size: int,
    expiry: Array,
) -> None:
    """Put one of some kinds, chosen by its share, into each spot that is empty.

    Spots outside `mask` are left alone.
    """
    for i in range(len(spots)):
        spot = spots[i]
        is_empty = at(mask, spot // size, spot % size)
        for number in range(len(layers)):
            is_empty &= layers[number, spot] == 0
        if is_empty:
            chosen = int(shares[i] * len(kinds))
            layer[spot] = kinds[chosen]
            if len(expiry):
                lifetime = lifetimes[chosen]
                expiry[spot] = turn[spot // size] + lifetime if lifetime else NEVER


# Agents.


@kernel
def find_spots(
    layers: Array,
    starts: Array,
    things: Array,
    solids: Array,
    size: int,
    due: Array,
    draws: Array,
    cells: Array,
) -> None:
    """Choose a random empty start spot in each world in which an agent is due.

    `things` marks all kinds of things, and `solids` the solid ones. Where all spots have
    something in them, one without anything solid is chosen; where there is
    none of these either, and where no agent is due, cell 0.
    """
    for world in range(len(due)):
        cells[world] = 0
        if not due[world]:
            continue
        for blocking in (things, solids):
            count = 0
            for cell in starts:
                count += not is_solid(layers, world * size + cell, blocking)
            rank = int(draws[world] / TWO32 * count)
            for cell in starts:
                if not is_solid(layers, world * size + cell, blocking):
                    if rank == 0:
                        cells[world] = cell
                        break
                    rank -= 1
            if count:
                break


@kernel
def choose(
    actions: Array,
    cell: Array,
    action: Array,
    target: Array,
    facing: Array,
    toward: Array,
    turned: Array,
    count: int,
    relative: bool,
) -> int:
    """Set an agent's action, target and facing in every world.

    `toward` and `turned` are tables by facing and action; without `relative`, only by
    action. Agents off the map, in cell 0, do not act, which is action `count`.
    """
    for world in range(len(cell)):
        action[world] = count if cell[world] == 0 else actions[world]
        entry = action[world]
        if relative:
            entry += facing[world] * (count + 1)
        entry = position(entry, len(toward))
        if entry < 0:
            return world
        target[world] = cell[world] + toward[entry]
        facing[world] = turned[entry]
    return OK


@kernel
def move(
    layers: Array,
    ground: Array,
    cell: Array,
    target: Array,
    where: Array,
    solids: Array,
    size: int,
    kind: int,
    moved: Array,
) -> int:
    """Move an agent to its target in every world, unless something solid is in it."""
    for world in range(len(cell)):
        spot = position(world * size + target[world], len(ground))
        if spot < 0:
            return world
        moved[world] = where[world] and not is_solid(layers, spot, solids)
        if moved[world]:
            ground[position(world * size + cell[world], len(ground))] = 0
            ground[spot] = kind
            cell[world] = target[world]
    return OK


@kernel
def fly(
    layers: Array,
    layer: Array,
    starts: Array,
    flying: Array,
    facing: Array,
    directions: Array,
    length: int,
    cells: Array,
    solids: Array,
    size: int,
    kind: int,
    lifetime: int,
    turn: Array,
    expiry: Array,
    hits: Array,
) -> None:
    """Shoot one lane of a beam where it is flying, and set which agents it hits.

    It leaves things of a kind in the cells after `starts`, up to the first solid thing,
    which it still hits.
    """
    for world in range(len(flying)):
        spot = world * size + starts[world]
        for _ in range(length if flying[world] else 0):
            spot += directions[facing[world]]
            for agent in range(len(cells)):
                hits[agent, world] |= world * size + cells[agent, world] == spot
            if not 0 <= spot < len(layer) or is_solid(layers, spot, solids):
                break
            layer[spot] = kind
            if len(expiry):
                expiry[spot] = turn[world] + lifetime if lifetime else NEVER


@kernel
def see(
    layers: Array,
    cells: Array,
    facing: Array,
    agents: Array,
    offsets: Array,
    reach: int,
    channels: Array,
    rotated: bool,
    size: int,
    views: Array,
) -> int:
    """Set the channels of the agents' windows, (agents, worlds, channels, window).

    `offsets` are the cells of the window, by facing, at most `reach` from 0, and `channels`
    is the channel of each kind, by layer; below 0 if it has none. Agents off the map, in
    cell 0, see nothing. Stops at an agent whose window is not in the layer, and returns its
    row.
    """
    worlds = cells.shape[1]
    for row in range(len(agents)):
        for world in range(worlds):
            cell = cells[agents[row], world]
            if cell == 0:
                continue
            if not reach <= world * size + cell < worlds * size - reach:
                return row
            turned = facing[agents[row], world] if rotated else 0
            for layer in range(len(channels)):
                for i in range(offsets.shape[1]):
                    kind = layers[layer, world * size + cell + offsets[turned, i]]
                    if kind != 0:
                        channel = channels[layer, kind]
                        if channel >= 0:
                            views[row, world, channel, i] = 1
    return OK


@kernel
def settle(
    done: Array,
    closing: Array,
    ended: Array,
    over: Array,
    turn: Array,
    turns: int,
    sums: Array,
    paid: Array,
    terminated: Array,
    truncated: Array,
) -> None:
    """Find whose episode ends in this turn, and pay those that play.

    `sums` are the rewards, scores and counts of the turn, (columns, agents, worlds), and
    `paid` gets those of playing agents, else 0.
    """
    columns, agents, worlds = sums.shape
    for agent in range(agents):
        for world in range(worlds):
            playing = not (done[agent, world] or closing[world])
            terminates = playing and (ended[agent, world] or over[world])
            truncates = playing and not terminates and turn[world] >= turns
            terminated[world, agent] = terminates
            truncated[world, agent] = truncates
            done[agent, world] |= terminates or truncates
            share = np.float32(playing)
            for column in range(columns):
                paid[column, agent, world] = sums[column, agent, world] * share
