"""OpenTelemetry spans and metrics, as the conventions for MCP define them.

Nothing is recorded, and of OpenTelemetry only the API is imported, until the program installs a provider.
"""
