"""The contract between Enginery's programs: identities, documents, the layout of the model store and its client.

The operator, the builder and the runtime import this package and never each other, so every word that two of them
must agree on (a reason, a key, a document, an object name) stands here exactly once.
"""
