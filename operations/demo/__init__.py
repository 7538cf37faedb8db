"""The demo: everything the project does, start to end, in one command."""
