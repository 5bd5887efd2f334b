"""Sequence methods: one file is one entry of `displace.sequence.SEQUENCES`."""
