"""What `make bench` runs: ratios measured in one run, never timed tests."""
