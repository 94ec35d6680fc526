"""What an author of rules uses: check, test, progress."""
