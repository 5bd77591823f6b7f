"""What exists? Spaces, MDPs, policies, baselines, reward noise, and the files they are kept in."""
