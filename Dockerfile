# The gateway as an image: built in one stage, run in another without build tools, as a user without rights.
# scripts/image_in_root.py builds this file with Buildah on a clean Debian and runs the result, without a Docker engine.
FROM python:3.12-slim-bookworm AS build
WORKDIR /src
COPY requirements/image.txt requirements/wheel.txt requirements/
RUN python -m venv /opt/pointsman
RUN /opt/pointsman/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes --no-deps -r requirements/image.txt
# What builds the wheel is locked too: with build isolation pip would fetch the newest, and run it.
RUN python -m venv /opt/build
RUN /opt/build/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes --no-deps -r requirements/wheel.txt
COPY pyproject.toml README.md LICENSE hatch_build.py ./
COPY scripts/index_readme.py scripts/
COPY src src
RUN /opt/build/bin/pip wheel --no-cache-dir --disable-pip-version-check --no-index --no-build-isolation --no-deps --wheel-dir /opt/wheel .
RUN /opt/pointsman/bin/pip install --no-cache-dir --disable-pip-version-check --no-index --no-deps /opt/wheel/*.whl
# The first start would compile the patterns of the default policy; what pip and this write, everybody may read.
RUN POINTSMAN_CACHE_DIR=/opt/pointsman/cache /opt/pointsman/bin/python -c "from pointsman.factory import build_engine, default_policy; build_engine(default_policy())" && chmod -R a+rX /opt/pointsman/cache
RUN /opt/pointsman/bin/pip uninstall --yes pip

FROM python:3.12-slim-bookworm
RUN groupadd --gid 10001 pointsman && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/pointsman --shell /usr/sbin/nologin pointsman
RUN mkdir -p /var/lib/pointsman /etc/pointsman && chown 10001:10001 /var/lib/pointsman
RUN python -m pip uninstall --yes pip
COPY --from=build /opt/pointsman /opt/pointsman
ENV PATH=/opt/pointsman/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
ENV POINTSMAN_CACHE_DIR=/opt/pointsman/cache POINTSMAN_CONFIG=/etc/pointsman/pointsman.toml XDG_STATE_HOME=/var/lib
USER 10001:10001
WORKDIR /var/lib/pointsman
VOLUME /var/lib/pointsman
EXPOSE 4747
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:4747/health/ready', timeout=2)"]
ENTRYPOINT ["pointsman"]
CMD ["serve", "--host", "0.0.0.0", "--log-format", "json"]
