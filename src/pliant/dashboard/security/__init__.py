"""Who may look at the page, and from where: sessions by a one-time link, and what every request must be and every response say."""
