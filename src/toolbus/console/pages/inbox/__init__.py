"""The Inbox: questions and changes for a person."""
