"""What an operator does: doctor, trace, sql."""
