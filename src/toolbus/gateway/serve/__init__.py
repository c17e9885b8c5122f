"""Run a gateway as a service: its front, its workers, its replica, and changes of its config."""
