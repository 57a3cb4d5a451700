"""What people see: tables, the live view, program output, and the final report."""
