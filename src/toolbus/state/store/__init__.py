"""One store for several gateways: keys, logins, answers, sessions and tasks, in SQLite or Postgres."""
