"""dbt with the project's profiles and Spark settings, and the files that dbt needs from config/tables."""
