"""The report: what a run has shown, as one page that opens offline."""
