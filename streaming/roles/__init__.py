"""The roles: what each does is a function without I/O; the runner or the consumer loop feeds it."""
