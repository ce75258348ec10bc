FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY arc_toolkit arc_toolkit
COPY templates templates
COPY instance_types instance_types
COPY docs/rules docs/rules
RUN python -m venv /opt/arc-toolkit && /opt/arc-toolkit/bin/pip install --no-cache-dir '.[all]'

FROM python:3.12-slim
COPY --from=build /opt/arc-toolkit /opt/arc-toolkit
RUN useradd --create-home --uid 10001 arc
USER 10001
WORKDIR /work
ENTRYPOINT ["/opt/arc-toolkit/bin/arc-toolkit"]
CMD ["--help"]
