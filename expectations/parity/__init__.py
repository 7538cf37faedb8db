"""Parity: Lambda against Kappa, row by row, with the traced reason for every row that differs."""
