"""What is known of calls exactly: how many, how long, when."""
