"""`kafkaform.yaml`, manifests, client properties, and settings for applications."""
