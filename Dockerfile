# sfumato in a container: runs as nobody in particular on a read-only file system, without a network.
#
#   docker build --tag sfumato .
#   docker run --rm --read-only --tmpfs /tmp --network none --cap-drop ALL \
#     --security-opt no-new-privileges --volume "$PWD:/data" --volume ledger:/ledger \
#     sfumato release events.parquet --config sfumato.toml --out releases/week-37
#
# All optional parts but Spark (no Java here): docker build --build-arg PACKAGES=image-all.txt ...
#
# What goes in is named by digest: the base image here, packages in requirements/ (tools/hashes.py).
FROM python:3.13-slim-bookworm@sha256:01f42367a0a94ad4bc17111776fd66e3500c1d87c15bbd6055b7371d39c124fb AS build
ARG PACKAGES=image.txt
WORKDIR /src
COPY requirements ./requirements
RUN python -m venv /opt/sfumato \
    && /opt/sfumato/bin/pip install --no-cache-dir --require-hashes --only-binary :all: \
        --requirement "requirements/${PACKAGES}"
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN /opt/sfumato/bin/pip install --no-cache-dir --no-index --no-deps --no-build-isolation .

FROM python:3.13-slim-bookworm@sha256:01f42367a0a94ad4bc17111776fd66e3500c1d87c15bbd6055b7371d39c124fb
LABEL org.opencontainers.image.title="sfumato" \
      org.opencontainers.image.description="Publish what crowds do without giving away what any person did" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/sfumato /opt/sfumato
ENV PATH="/opt/sfumato/bin:${PATH}" \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/data \
    XDG_DATA_HOME=/ledger
# Compiled beforehand, while packages can be written: they cannot be later. Build on the kind of
# processor that it will run on; on another one it is compiled anew, into /tmp.
RUN sfumato doctor --warm --quiet --ledger /tmp/none.sqlite \
    && mkdir --mode 0700 /data /ledger \
    && chown 10001:10001 /data /ledger
# Whoever reads the ledger reads the keys with it: a volume of its own that only this user enters.
VOLUME ["/data", "/ledger"]
WORKDIR /data
USER 10001:10001
ENTRYPOINT ["sfumato"]
CMD ["--help"]
