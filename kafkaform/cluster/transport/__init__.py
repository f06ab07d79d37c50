"""Connections to brokers: sockets, TLS, logins, deadlines, and errors in kafkaform's words."""
