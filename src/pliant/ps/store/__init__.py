"""The parameters in memory: embedding tables, dense variables, and the compiled loops that read and update them."""
