"""Gold calls in durable runs: their workers are killed between calls, and replaced."""
