"""What a simulation showed, as one HTML file that needs no network: ``svg.py`` draws, ``page.py`` writes."""
