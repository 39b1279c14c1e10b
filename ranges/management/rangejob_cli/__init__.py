"""One module for each action of `manage.py rangejob`: HELP, add_arguments, run."""
