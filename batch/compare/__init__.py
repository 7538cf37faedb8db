"""Compare Lambda with Kappa: the command `compare`."""
