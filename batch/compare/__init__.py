"""Lambda against Kappa: the command `compare`."""
