"""What a pass saw, and what every condition must say of it: the cases of `decide`, by a sentence each.

The composed chain is what they are held against, so that they pin the order of checks too. Used by test_decide.
"""

from support.passes.accepted import ACCEPTED
from support.passes.built import BUILT
from support.passes.prepared import PREPARED
from support.passes.serving import SERVING

CHAIN = ACCEPTED | PREPARED | BUILT | SERVING
