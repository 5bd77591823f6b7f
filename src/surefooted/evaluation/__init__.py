"""The truth about a run and about a problem: exact margins, regret, summaries."""
