"""What runs on the node: standard library only, Python 3.9, packed into one zipapp.

``run`` bounds one command, with the help of ``processes``; ``collector`` runs the probe table;
``nvml`` asks the NVML library in a child process; ``redact`` removes what must not leave the site;
``main`` is the zipapp's entry. ``bundle`` packs them (on the controller, at build time).
"""
