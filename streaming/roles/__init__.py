"""The roles of stream processing; the core of each is a pure function, called by the runner or a Kafka consumer."""
