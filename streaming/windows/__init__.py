"""Tools for windowed jobs: late rows, closing of open windows on request, salting of hot keys."""
