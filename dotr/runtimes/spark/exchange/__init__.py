"""Messages between processes of Spark: jobs, tasks, rows and errors."""
