"""fabric-tools: take a bare DGX/HGX node to a served LLM, one proved phase at a time.

Data flows one way: a collector on the node (``node``) is reached over a ``transport`` and returns
one snapshot of raw tool output; ``parsers`` turn text into typed facts; ``checks`` compare facts
with the platform file and give verdicts; ``gate`` decides; ``report`` shows; ``cli`` exits.

This file stays importable by Python 3.9 with nothing installed: it is packed into the collector.
"""

__version__ = "0.1.0"
