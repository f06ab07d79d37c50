"""The configuration file, manifests, client properties, and client settings for applications."""
