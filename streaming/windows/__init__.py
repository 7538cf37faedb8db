"""What any windowed job may use: late rows, closing on request, salting of hot keys."""
