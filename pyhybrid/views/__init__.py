"""What to show of a profile, without output: functions of its tables."""
