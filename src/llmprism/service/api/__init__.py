"""The HTTP side: `app` (routes), `guard` (who may do what, how often, from where), `push` (bodies of records)."""
