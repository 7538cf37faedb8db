"""What stands in for the outside world on a laptop: broker, simulator."""
