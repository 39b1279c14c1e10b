"""The project as the pictures' server runs it: with the shop's handlers and range jobs."""

from typing import Any

from config.asgi import application as project
from tests.console.pictures import shop

application: Any = project
shown = shop
