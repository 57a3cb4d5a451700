"""The wire between the Brain and who talks to it: identity, channels, converters (``brain.proto``)."""
