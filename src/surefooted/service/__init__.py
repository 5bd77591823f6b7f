"""The advisor over HTTP: `surefooted serve` (docs/service.md says how to use it, docs/operating.md how to run it).

Every file `api_*.py` is one part of the API, as a router that `app.create_app` mounts. The extra `surefooted[service]`
has what it needs; nothing here is imported by the rest of the package.
"""
