"""Types of the custom resources, group `enginery.io`; `crd.py` generates the CRDs from them.

Every description is what `kubectl explain` shows, so it says the unit and an example. Every string and list is
bounded, which bounds the cost of the CEL rules. Defaults live here, hence in the schema: a default that moved with the
operator's version would silently change the identity of engines.
"""
