# sfumato in a container: runs as nobody in particular on a read-only file system, without a network.
#
#   docker build --tag sfumato .
#   docker run --rm --read-only --tmpfs /tmp --network none --cap-drop ALL \
#     --security-opt no-new-privileges --volume "$PWD:/data" --volume ledger:/ledger \
#     sfumato release events.parquet --config sfumato.toml --out releases/week-37
#
# Extras: docker build --build-arg EXTRAS='[emd,plots]' --tag sfumato .
FROM python:3.13-slim-bookworm AS build
ARG EXTRAS=""
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
RUN python -m venv /opt/sfumato \
    && /opt/sfumato/bin/pip install --no-cache-dir --constraint constraints.txt ".${EXTRAS}"

FROM python:3.13-slim-bookworm
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
