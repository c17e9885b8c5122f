"""Pages about resources, prompts and skills."""
