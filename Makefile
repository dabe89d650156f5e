# Everything runs in .venv, which the first target builds from nothing.
#
#   make demo     train the digits classifier; pictures in out/
#   make cluster  two regressions on two worker processes; ROWS=200000 COLUMNS=20 CHUNKS=16 WORKERS=2 are the sizes
#   make test     the whole suite
#   make check    style, types and the fast tests that find most faults, in about two minutes
#   make faults   how many of a hundred planted faults those tests catch, by planting one after the other, for half an hour;
#                 ALL=1 takes the whole suite; ONLY="7,scipy" are numbers of faults, or words of their files or areas
#   make test-pythons
#                 what depends on Python itself, on each other Python of this machine; an error if there is none, except
#                 with ALLOW_NONE=1
#   make peers-test
#                 what needs PyTorch or the package sparse: functions of one here and fgrad's there, arrays of the other,
#                 PyTorch's own samples of its operations, and the pages' blocks for other libraries; then clients-test
#   make clients-test
#                 the tests of packages that use HIPS Autograd, such as lifelines and pymanopt, with Autograd and with
#                 fgrad in its place, and Autograd's examples; each package from PyPI, in an environment of its own in
#                 build/clients, for an hour in all. NAMES="mici ssm examples" are those to run
#   make tensorflow-tests
#                 TensorFlow's own tests of gradients and optimizers, unchanged, with fgrad.compat in TensorFlow's place;
#                 its files come from its repository into build/tensorflow-tests. NAMES="adam backprop" are parts of the
#                 files' paths
#   make fuzz     random programs that look for wrong answers, for five minutes; SECONDS=60 SEED=3 FAMILY=scipy,numpy
#                 limits them, and COUNT=1 in place of SECONDS runs the one case that a seed says
#   make lint     style, types, and the size of the core
#   make package-test
#                 the wheel and the sdist in empty environments, on every Python here, with each extra and with all;
#                 EXTRAS=scipy,save are these alone; LOWEST=1 runs tests with the lowest versions that are allowed, by uv
#   make bench    the speed ratios
#   make docs     the documentation, in build/docs
#   make docs-look
#                 the documentation as a reader sees it, in Chromium: links, search, widths; pictures in out/docs
#   make pictures the pictures of the pages, by the code on them; PAGES="docs/tutorial.md" are the pages
#   make notebooks
#                 the notebooks of examples/, run and stored with what they show; NOTEBOOKS="..." are those to run
#   make clean    remove what the targets have made

PYTHON ?= python3
# Matrices are small here, and tests run side by side: threads for one product would wait for each other.
export OPENBLAS_NUM_THREADS ?= 1
# Bytecode is kept: many tests start Pythons of their own, which would compile every module anew.
export PYTHONDONTWRITEBYTECODE =
export PYTHONPYCACHEPREFIX ?= $(CURDIR)/.venv/bytecode
BIN = .venv/bin
# Two steps, because the demo needs none of the tools of development.
DEMO_READY = .venv/demo-ready
CLUSTER_READY = .venv/cluster-ready
READY = .venv/ready
PEERS_READY = .venv/peers-ready
CHECKED = README.md docs/tutorial.md fgrad tests/test_accumulator.py tests/test_callbacks.py tests/test_check.py \
	tests/test_code_cache.py tests/test_compat_autograd.py tests/test_cumulative.py tests/test_custom.py \
	tests/test_einsum.py tests/test_errors.py tests/test_explain.py tests/test_faults.py \
	tests/test_gradient_functions.py tests/test_implicit.py tests/test_jacobians.py tests/test_kinks.py \
	tests/test_linalg.py tests/test_loops.py tests/test_methods.py tests/test_native.py tests/test_optimizers.py \
	tests/test_overwriting.py tests/test_package.py tests/test_products.py tests/test_reductions.py tests/test_saving.py \
	tests/test_schedules.py tests/test_scipy_first.py tests/test_selecting.py tests/test_shapes.py tests/test_sorting.py \
	tests/test_statistics.py tests/test_sums.py tests/test_tape.py tests/test_tensorflow_graph.py \
	tests/test_tensorflow_operations.py tests/test_tensorflow_optimizers.py tests/test_tree.py tests/test_ufuncs.py \
	tests/test_uncertainty.py tests/test_variable.py tests/test_views.py tests/test_vmap.py
INSTALL = $(BIN)/python -m pip install --quiet --no-compile --editable

.PHONY: demo cluster test check faults test-pythons package-test peers-test clients-test tensorflow-tests fuzz lint bench docs \
	docs-look pictures notebooks clean

demo: $(DEMO_READY)
	$(BIN)/python examples/digits.py

cluster: $(CLUSTER_READY)
	$(BIN)/python examples/cluster.py $(if $(ROWS),--rows $(ROWS)) $(if $(COLUMNS),--columns $(COLUMNS)) \
		$(if $(CHUNKS),--chunks $(CHUNKS)) $(if $(WORKERS),--workers $(WORKERS))

test: $(READY)
	$(BIN)/python -m pytest -n 2

check: lint
	$(BIN)/python -m pytest -n 2 -m "not slow" $(CHECKED)

faults: $(READY)
	PYTHONPATH=tools $(BIN)/python -m faults $(if $(ONLY),--only $(ONLY)) $(if $(ALL),,--mark "not slow" $(CHECKED))

test-pythons:
	$(PYTHON) tools/pythons.py $(if $(ALLOW_NONE),--allow-none)

package-test:
	$(PYTHON) tools/package_test.py $(if $(EXTRAS),--extras $(EXTRAS)) $(if $(LOWEST),--lowest)

peers-test: $(PEERS_READY)
	$(BIN)/python -m pytest tests/test_interop_torch.py tests/test_interop_libraries.py tests/test_payloads_sparse.py \
		 tests/test_other_libraries_arrays.py tests/test_torch_samples.py tests/test_pages.py tests/test_export.py \
		 fgrad/interop
	$(MAKE) clients-test

clients-test: $(DEMO_READY)
	PYTHONPATH=tools $(BIN)/python -m clients $(NAMES)

tensorflow-tests: $(DEMO_READY)
	PYTHONPATH=tools $(BIN)/python -m tensorflow_tests $(NAMES)

fuzz: $(READY)
	PYTHONPATH=tools $(BIN)/python -m fuzz $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED)) \
		$(if $(FAMILY),--family $(FAMILY)) $(if $(COUNT),--count $(COUNT))

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict fgrad tests/types
	$(BIN)/python tools/structure.py

bench: $(READY)
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/programs.py
	$(BIN)/python benchmarks/loops.py
	$(BIN)/python benchmarks/sparse.py
	$(BIN)/python benchmarks/orders.py
	$(BIN)/python benchmarks/containers.py
	$(BIN)/python benchmarks/steps.py
	$(BIN)/python benchmarks/exports.py

# Without --quiet, which would hide warnings from the strict mode, too.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

docs-look: docs
	$(BIN)/python tools/docs_look.py

pictures: $(READY)
	$(BIN)/python tools/pictures.py $(PAGES)

notebooks: $(READY)
	$(BIN)/python tools/notebooks.py $(NOTEBOOKS)

clean:
	rm -rf .venv .venv-3.* build dist out .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(DEMO_READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fgrad needs Python 3.11 or newer; name one with make PYTHON=...")'
	$(PYTHON) -m venv .venv
	$(INSTALL) '.[demo]'
	touch $@

$(CLUSTER_READY): $(DEMO_READY)
	$(INSTALL) '.[distributed,scipy]'
	touch $@

$(READY): $(DEMO_READY)
	$(INSTALL) '.[dev]'
	touch $@

$(PEERS_READY): $(READY)
	$(INSTALL) '.[peers]'
	touch $@
