"""New parts of the project, as working skeletons in its own style."""
