"""`python -m benchmarks.bare`: a Django process that does nothing; prints its memory in MiB."""

import json
import os

import django
import psutil


def main() -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.project.settings"
    django.setup()
    from django.contrib.auth.models import Group

    list(Group.objects.all())
    facts = psutil.Process().memory_full_info()
    print(json.dumps({"resident": facts.rss / 2**20, "proportional": facts.pss / 2**20}))


if __name__ == "__main__":
    main()
