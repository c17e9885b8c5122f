"""HTML of the console: elements, forms, charts and layout."""
