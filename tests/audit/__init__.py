"""The audit trail: written by real processes, read and checked afterwards."""
