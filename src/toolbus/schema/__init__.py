"""Read JSON Schema: one place for references, `allOf`, subschemas, words and validation.

All other readers of schemas use this package: arguments, provider dialects, forms, the command line. Nothing
is ever fetched, and every way through a schema is bounded.

values      JSON values and their types
keywords    the vocabulary as tables, and the walk through all subschemas
references  the targets of `$ref`
normalize   one node of any draft as draft 2020-12
reader      a node with references followed and `allOf` merged, in a bounded number of steps
node        the constraints of a schema at one place
describe    a schema and a value in words
patterns    jsonschema-rs, and the cost of regular expressions
validator   validity, faults, and limits of depth and size
"""
