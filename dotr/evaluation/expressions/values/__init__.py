"""Values of expressions: numbers, dates, times and exact sums, behind the texts of terms."""
