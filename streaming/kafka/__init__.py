"""Plain Kafka consumers: the loop, its transactions, and the dead-letter topic."""
