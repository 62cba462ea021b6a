"""Ranks of torch's FSDP2 that train for Tidemill (learner.backend = "fsdp2").

    tidemill -- Unix socket --> rank 0 -- broadcast --> all ranks: score, update, publish, save

Tidemill keeps what is not arithmetic: advantages, minibatches, packing, staleness, when to publish. The ranks do the
forward pass, the loss, the backward pass and AdamW. Every rank carries out every command, in the same order.
"""
