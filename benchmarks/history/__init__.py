"""What asv measures at each commit: see `asv.conf.json` in the folder above."""
