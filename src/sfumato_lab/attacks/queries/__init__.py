"""What an adversary makes of answers to counting questions. Every result is internal."""
