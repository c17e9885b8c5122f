"""The sign-in of people, and their consent to clients."""
