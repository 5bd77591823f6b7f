"""The truth about a run and about a problem: exact margins and regret, summaries, pictures."""
