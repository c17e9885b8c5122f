"""The values that parts pass to each other, and the errors that they raise."""
