"""Read JSON Schema: one place for references, `allOf`, subschemas, words and validation.

Whatever else reads a schema (arguments, provider dialects, forms, the command line) reads it through here.
Nothing is ever fetched, and every way through a schema is bounded.

values      JSON values and their types
keywords    the vocabulary as tables, and the walk through all subschemas
references  what a `$ref` points to
work        how many steps reading a schema may take
normalize   one node of any draft as draft 2020-12
merge       two nodes that both apply, as one
reader      a node with references followed and `allOf` merged
node        what a schema allows at one place
describe    a schema and a value in words
patterns    what regular expressions cost
bounds      what is too deep or too large to validate
rust        jsonschema-rs
validator   what is valid, and why not
"""
