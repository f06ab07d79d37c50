"""Java, and jars that are fetched once into the user's cache folder."""
