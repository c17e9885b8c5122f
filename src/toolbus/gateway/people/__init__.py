"""How people prove who they are, and what they allow their clients."""
