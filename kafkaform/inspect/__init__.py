"""Reports that compare live clusters with manifests: drift, health, status, comparison, import, skew."""
