"""The web process: `daphne config.asgi:application`."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django_application = get_asgi_application()

from channels.routing import ProtocolTypeRouter

from config import embedded, environment

given = environment.read()
embedded.start_here(postgres=not given.database_url, valkey=not given.redis_url)

application = ProtocolTypeRouter({"http": django_application})
