"""Plain Kafka consumers: the poll loop, transactions, and dead letters."""
