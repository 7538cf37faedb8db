"""The streaming jobs: landing, the roles, and the one runner."""
