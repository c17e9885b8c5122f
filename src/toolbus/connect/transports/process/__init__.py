"""Server processes: started, guarded and ended."""
