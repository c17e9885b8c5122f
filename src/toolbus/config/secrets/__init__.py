"""The secrets of a config: find references and literals, look values up, fill them in, redact them."""
