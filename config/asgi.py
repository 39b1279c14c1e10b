"""The web process: `daphne config.asgi:application`."""

import gc
import os

# What is imported stays: it is not looked through for garbage again and again.
gc.disable()

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django_application = get_asgi_application()

from config import embedded, environment
from jobs.live.routing import application_with

given = environment.read()
embedded.start_here(postgres=not given.database_url, valkey=not given.redis_url)

application = application_with(django_application)
gc.freeze()
gc.enable()
