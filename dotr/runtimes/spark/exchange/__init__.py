"""What processes of Spark send to each other: jobs, tasks, rows and errors."""
