"""Counts what a real gateway executes: opcodes, calls, writes and modules, without looking at a clock."""
