"""What is declared: settings, topics, tables, Spark defaults, jars."""
