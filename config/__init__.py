"""Declarations: settings, topics, tables, rules, Spark defaults, jars."""
