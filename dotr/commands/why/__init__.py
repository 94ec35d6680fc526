"""Commands that answer questions: why, why-not and facts."""
