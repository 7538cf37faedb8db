"""A stand-in for the payment API: a payment takes effect once per idempotency key, no matter how often it is called."""
