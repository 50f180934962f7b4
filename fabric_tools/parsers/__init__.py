"""Text of one tool to typed facts, or ``ParseError``. One module a tool; none guesses.

``sources`` says which probe answers for which fact; ``reader`` applies that to a snapshot.
"""
