"""The wire: the protocol, who may speak it, and how calls fail."""
