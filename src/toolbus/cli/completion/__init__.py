"""Tab completion in bash, zsh and fish."""
