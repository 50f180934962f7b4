"""The lab: simulated nodes that can be made to fail in named ways. No part of the product."""
