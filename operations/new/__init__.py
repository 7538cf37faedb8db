"""New topics, jobs, joins and models: each command writes every file that the change needs."""
