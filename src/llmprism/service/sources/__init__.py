"""Where records come from: one file per source. Each hands payloads to the intake and owns its positions."""
