# Two images from one file: docker build --target web . and docker build --target drone .
FROM python:3.11-slim AS base
ENV PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN useradd --create-home --uid 1000 gadget \
    && install --directory --owner=gadget --group=gadget --mode=0700 /data /workspace
WORKDIR /src
COPY requirements requirements

# Makes the package, with the browser IDE; Node and what builds it stay in this stage.
FROM base AS package
RUN pip install --require-hashes --requirement requirements/build.lock --requirement requirements/node.lock
COPY pyproject.toml README.md hatch_build.py ./
COPY gadget_api gadget_api
COPY gadget_ai gadget_ai
COPY gadget_code gadget_code
COPY gadget_drone gadget_drone
COPY ide ide
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /package .

FROM base AS web
RUN pip install --require-hashes --requirement requirements/web.lock
COPY --from=package /package /package
RUN pip install --no-deps /package/*.whl
# Inside a container every address is the network's; TLS is for what stands in front.
ENV GADGET_DATA_DIR=/data GADGET_HOST=0.0.0.0 GADGET_PUBLIC_URL=http://127.0.0.1:4270
USER gadget
WORKDIR /data
VOLUME /data
EXPOSE 4270
# With the host name of the public URL: no other is answered.
HEALTHCHECK --interval=10s --timeout=5s --start-period=15s CMD ["python", "-c", "import os, urllib.parse as p, urllib.request as r; r.urlopen(r.Request('http://127.0.0.1:4270/health/ready', headers={'Host': p.urlsplit(os.environ['GADGET_PUBLIC_URL']).netloc}), timeout=4)"]
CMD ["gadget-code", "serve", "--port", "4270", "--insecure"]

FROM base AS drone
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git openssh-client \
    && rm -rf /var/lib/apt/lists/*
RUN pip install --require-hashes --requirement requirements/drone.lock
COPY --from=package /package /package
RUN pip install --no-deps /package/*.whl
ENV GADGET_SERVER_URL=http://web:4270
USER gadget
WORKDIR /workspace
VOLUME /workspace
# The daemon's death ends the container; this tells whether it could work: git, the workspace, the server.
HEALTHCHECK --interval=30s --timeout=15s --start-period=15s CMD ["gadget-drone", "doctor", "--workspace", "/workspace"]
CMD ["gadget-drone", "start", "--workspace", "/workspace"]
