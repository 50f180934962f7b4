"""Ways to reach a node: ``ssh`` (paramiko), ``openssh`` (the system's client), ``local``.

``connection`` is what they share; ``sudo`` and ``collect`` run the collector over any of them;
``ssh_config`` and ``known_hosts`` read the user's files; ``files`` reads saved snapshots.
Everything that a node sends is bounded and untrusted.
"""
