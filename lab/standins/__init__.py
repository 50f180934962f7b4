"""What answers in a lab node where a real one has vendor tools, libraries and hardware.

``state`` reads what the hardware is and what is loaded, ``standin`` answers for the tools,
``doubles`` builds the libraries, ``hardware`` makes the description of a node, and ``files`` says
where all of it goes. Everything but ``doubles``, ``hardware`` and ``files`` is installed in the
node and keeps to the standard library.
"""
