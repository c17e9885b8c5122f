"""HTTP APIs as servers: the operations of an OpenAPI document as tools."""
