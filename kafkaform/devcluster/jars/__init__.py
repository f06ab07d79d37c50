"""Java, and jars that are downloaded once into the user's cache folder."""
