"""Tab completion for bash, zsh, fish and PowerShell."""
