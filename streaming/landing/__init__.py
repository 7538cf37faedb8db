"""Landing: Kafka -> bronze and silver; one module per step."""
