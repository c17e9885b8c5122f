"""Config files of other hosts: found, read, translated and written."""
