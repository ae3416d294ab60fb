"""How the figures of CleaveDB are measured; see bench/README.md."""
