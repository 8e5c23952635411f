"""Log files → lines → shapes → events → one diagnosis of the job. See docs/explanation/logs.md for the ideas."""
