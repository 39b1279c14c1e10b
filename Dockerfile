# One image for the web process, the worker and the commands.
FROM python:3.13-slim-trixie

ENV PYTHONUNBUFFERED=1
WORKDIR /app

COPY requirements/base.txt requirements/base.txt
RUN pip install --no-cache-dir -r requirements/base.txt

COPY LICENSE manage.py ./
COPY config config
COPY jobs jobs
COPY ranges ranges
COPY worker worker
COPY templates templates
COPY static static

# The image's user may not write here, so each process that starts would compile all of it.
RUN python -m compileall -q config jobs ranges worker

# Static files do not depend on where the image runs; these values are for this step only.
RUN DATABASE_URL=postgresql://build/build SECRET_KEY=$(head -c 64 /dev/urandom | base64 -w 0) \
    ALLOWED_HOSTS=build python manage.py collectstatic --no-input --verbosity 0

# By number: Kubernetes' runAsNonRoot does not look names up.
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin coppice
USER 10001
EXPOSE 8000

# As a list: the process is number 1 itself, so SIGTERM reaches it and it ends in good order.
CMD ["daphne", "-b", "0.0.0.0", "-p", "8000", "config.asgi:application"]
