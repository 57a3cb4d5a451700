"""A job as one HTML file that needs no server: the front end with the documents of the job inside it."""
