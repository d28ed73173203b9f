# The converter of PyTorch exports and Hugging Face directories: init container `convert` of a prepare Job. About 6 GB, as
# the wheels of torch are those for CUDA, and torch does not start without CUDA's libraries even where it computes on CPUs.
#
#     docker build -f converter/pytorch.Dockerfile -t enginery/converter-pytorch .
#
# `make images CONVERTERS=pytorch` builds the same file on a Debian base of its own, without Docker and from wheels of the host.
ARG BASE=python:3.11-slim-bookworm
FROM ${BASE}

# Where a build without a network finds wheels; unset, pip asks its usual index.
ARG PIP_NO_INDEX
ARG PIP_FIND_LINKS

# Frameworks write caches to HOME; the root file system is read-only in a pod.
ENV PATH=/opt/enginery/bin:$PATH \
    HOME=/tmp \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
WORKDIR /src
RUN ["python3", "-m", "venv", "/opt/enginery"]

# The framework is a layer of its own, so that a change of our code rebuilds in seconds.
COPY converter/pytorch.lock ./
RUN ["pip", "install", "--no-cache-dir", "--requirement", "pytorch.lock"]

# Without its dependencies: neither an S3 client nor a signing library is in this image.
COPY pyproject.toml ./
RUN ["touch", "README.md"]
COPY model_store model_store
COPY converter/enginery_converter converter/enginery_converter
RUN ["pip", "install", "--no-cache-dir", "--no-deps", "."]

WORKDIR /
USER 65532:65532
ENTRYPOINT ["python3", "-m", "enginery_converter"]
