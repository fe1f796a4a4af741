# Debian's Postgres in the place of the official image, for deploy/try-compose where no registry can be reached.
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
RUN apt-get update \
    && apt-get install -y --no-install-recommends postgresql \
    && rm -rf /var/lib/apt/lists/* \
    && install -d -o postgres -g postgres -m 700 /var/lib/postgresql/data
COPY --chmod=755 postgres-entrypoint /usr/local/bin/postgres-entrypoint
USER postgres
# as in the official image: do not wait for clients to leave
STOPSIGNAL SIGINT
ENTRYPOINT ["postgres-entrypoint"]
