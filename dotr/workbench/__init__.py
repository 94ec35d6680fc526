"""Tools for authors of rules: check, test, explain, new, kb, plan, status, bundle."""
