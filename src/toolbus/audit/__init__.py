"""The audit trail: every decision and call, one line each, chained by digests so that changes show."""
