"""The live run: set-up, one worker thread, commands, and what is shown of it."""
