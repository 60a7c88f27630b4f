"""Follows the user's edits, in cells and in files, to the runs that they concern."""
