# Everything starts from a bare clone: the first call sets up, later ones go straight to work.
PYTHON ?= python3
BIN := .venv/bin
# Two processes with a thread each; a module stays in one of them, where its fixtures are.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadscope --no-loadscope-reorder
READY := .venv/ready

.PHONY: demo test quick lint types docs wheel benchmark torture clean

demo: $(READY)            ## digits with 50 labels: the ensemble, its student, LGA alone and scikit-learn
	$(BIN)/python -m experiments.tabular demo

test: lint types          ## lint, types and all tests
	$(PYTEST)

quick: $(READY)           ## the fast tests only
	$(PYTEST) -m "not slow"

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(READY)
	$(BIN)/mypy

docs: $(READY)            ## the pages as a site in site/; needs no network
	$(BIN)/mkdocs build --strict

wheel: $(READY)           ## build the wheel, install it in an empty environment, fit a table there
	rm -rf dist .venv-wheel
	$(BIN)/python -m build --wheel --outdir dist
	$(PYTHON) -m venv .venv-wheel
	.venv-wheel/bin/python -m pip install --quiet -c constraints.txt dist/*.whl
	cd dist && ../.venv-wheel/bin/python -c "import labelgrad; labelgrad.LGAClassifier"
	cd dist && ../.venv-wheel/bin/labelgrad --version
	cd dist && printf 'size,legs,pet\n%s' "$$(for i in 1 2 3 4 5; do echo "$$i,4,cat"; echo "9$$i,2,bird"; echo "$$i.5,4,"; done)" > pets.csv
	cd dist && ../.venv-wheel/bin/labelgrad fit pets.csv --target pet --base-models linear --steps 20 --out run

benchmark: $(READY)       ## what a step and the label table cost
	$(BIN)/python benchmarks/step_cost.py
	$(BIN)/python benchmarks/table_cost.py

torture: $(READY)         ## attack all that is promised for MINUTES=120; counts add up in runs/torture.json
	$(BIN)/python -m tests.adversarial --minutes $(or $(MINUTES),120)

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,docs]'
	touch $(READY)

clean:
	rm -rf .venv .venv-wheel dist runs site .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
