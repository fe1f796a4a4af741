# moto's S3 server in the place of the default store, for deploy/try-compose where no registry can be reached.
# Flask is what every server of moto's needs; its extra `server` brings more, for services not used here.
# It keeps objects in memory and does not check keys.
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
COPY constraints.txt /tmp/constraints.txt
RUN --mount=type=secret,id=pip_conf,target=/etc/pip.conf \
    python3 -m venv /opt/moto \
    && /opt/moto/bin/pip install --no-cache-dir 'moto[s3]>=5.2,<6' Flask flask-cors -c /tmp/constraints.txt
USER nobody
ENTRYPOINT ["/opt/moto/bin/moto_server"]
