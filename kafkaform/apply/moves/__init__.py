"""Moving replicas from broker to broker: in batches, throttled, and watched until they are in sync."""
