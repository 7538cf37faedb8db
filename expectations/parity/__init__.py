"""Parity: compare Lambda with Kappa row by row, and trace every differing row to a reason."""
