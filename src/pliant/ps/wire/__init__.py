"""The data plane: frames, sockets, and memory shared with clients on the same machine."""
