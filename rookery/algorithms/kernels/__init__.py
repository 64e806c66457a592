"""Updates without autograd: layers with their gradients written by hand.

A layer has a `forward` and, beside it, a `backward`. Matrix products are torch's; all other
loops are compiled (loops.py). Buffers are allocated once, for a group and a batch size.
"""
