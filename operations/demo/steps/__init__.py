"""The steps of the demo, one file each, run in the order of their file names.

A step is a module with `step = Step(...)`. To add one, add a file; to leave one out, delete its file. Number files in
tens, so that there is room between them. All files are imported when the demo starts: a step imports what takes
seconds to import, as Great Expectations does, when it runs.
"""
