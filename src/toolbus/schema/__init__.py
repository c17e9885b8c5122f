"""Read JSON Schema: one place for references, `allOf`, subschemas, words and validation.

Whatever else reads a schema (arguments, provider dialects, forms, the command line) reads it through here.
Nothing is ever fetched, and every way through a schema is bounded.

values      JSON values and their types
keywords    the vocabulary as tables, and the walk through all subschemas
references  what a `$ref` points to
normalize   one node of any draft as draft 2020-12
reader      a node with references followed and `allOf` merged, in a bounded number of steps
node        what a schema allows at one place
describe    a schema and a value in words
patterns    jsonschema-rs, and what regular expressions cost
validator   what is valid and why not, and what is too deep or too large to validate
"""
