"""The payment API's stand-in: retries a payment once for each idempotency key, however often it is asked."""
