"""What is, beside what is declared: drift, health, status, comparison, import, history, skew."""
