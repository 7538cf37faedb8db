"""dbt with the project's profiles and Spark settings."""
