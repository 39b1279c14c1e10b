"""One module for each action of `manage.py jobs`: HELP, add_arguments, run."""
