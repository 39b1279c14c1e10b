"""What `manage.py demo` does, one file per part: workloads, processes, account, display."""
