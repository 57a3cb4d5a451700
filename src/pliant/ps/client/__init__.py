"""What a worker uses: the parameters of all servers as if they were one."""
