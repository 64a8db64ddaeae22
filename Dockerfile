# The image of packhoused, with the programs for large graphs beside it:
#   docker build --tag packhouse:0.1.0 --build-arg COMMIT=$(git rev-parse HEAD) .
# or, without a daemon and without a registry, `make image`, which also looks at what it has made.
# --build-arg CMAKE_BUILD_PARALLEL_LEVEL=N bounds the compilers that run at once.

FROM debian:bookworm AS build
WORKDIR /src
COPY deploy/debian-packages.txt deploy/install-packages.sh deploy/
RUN deploy/install-packages.sh build page && rm -rf /var/lib/apt/lists/*
COPY CMakeLists.txt CMakePresets.json ./
COPY proto proto
COPY service service
COPY client client
ARG CMAKE_BUILD_PARALLEL_LEVEL
# Of the sources, for packhouse_build_info: there is no repository here.
ARG COMMIT=unknown
RUN cmake --preset release -DPACKHOUSE_TESTS=OFF -DPACKHOUSE_COMMIT="$COMMIT" \
    && cmake --build --preset release --target packhoused packhouse-graph packhouse-metis \
    && strip build/release/service/packhoused build/release/service/packhouse-metis \
             build/release/service/packhouse-graph

# Only what the programs need, and a shell: no perl, no apt, nothing that installs.
FROM debian:bookworm-slim AS root
COPY deploy/debian-packages.txt deploy/install-packages.sh deploy/
COPY deploy/image deploy/image
RUN deploy/install-packages.sh runtime \
    && deploy/image/make-root.sh /image $(deploy/install-packages.sh --list runtime image)
COPY --from=build /src/build/release/service/packhoused \
                  /src/build/release/service/packhouse-metis \
                  /src/build/release/service/packhouse-graph /image/usr/local/bin/
ARG COMMIT=unknown
# For --data-dir=/data: an empty named volume that is mounted here gets this owner. There is no VOLUME
# instruction, since it would put data sets into an anonymous volume that is removed with the container.
RUN install -d -o 65532 -g 65532 /image/data \
    && install -d /image/usr/share/sbom \
    && deploy/image/sbom.sh /image "$(/image/usr/local/bin/packhoused --version)" "$COMMIT" > /image/usr/share/sbom/packhouse.spdx.json

FROM scratch
LABEL org.opencontainers.image.title="packhouse" \
      org.opencontainers.image.description="gRPC service that packs graphs into full, padded batches" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="0.1.0"
COPY --from=root /image/ /
ENV PATH=/usr/local/bin:/usr/bin:/bin
# A number, so that Kubernetes can tell that it is not root.
USER 65532:65532
# gRPC; /metrics, /healthz and /readyz.
EXPOSE 50051 9464
# Drains. `docker stop` kills after 10 s unless told otherwise: give it more than --drain-timeout.
STOPSIGNAL SIGTERM
# For plain text at this --http-listen. With another one, or --http-tls, set another --health-cmd.
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["bash", "-c", \
  "exec 3<>/dev/tcp/127.0.0.1/9464 && printf 'GET /healthz HTTP/1.0\\r\\n\\r\\n' >&3 && read -r _ status _ <&3 && [ \"$status\" = 200 ]"]
# Other machines reach it, so it needs --tls-cert, --tls-key and --http-tls, or --insecure
# (docs/security.md).
ENTRYPOINT ["packhoused", "--listen=0.0.0.0:50051", "--http-listen=0.0.0.0:9464"]
