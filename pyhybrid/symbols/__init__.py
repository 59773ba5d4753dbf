"""What addresses are: functions, source positions, kernel and JIT code, plumbing."""
