"""What runs in the profiled process: settings, a run, its files.  Imports are few and light."""
