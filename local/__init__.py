"""Local stand-ins for external systems: Kafka broker, catalog, Thrift server, simulator, payment API."""
