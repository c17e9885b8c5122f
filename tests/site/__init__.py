"""The site of the documentation, which `make site` builds with Zensical."""
