# What a contributor runs; `make help` lists it. Everything else is in ./verify, which needs no make.
PYTHON = .venv/bin/python

.DEFAULT_GOAL := help
.PHONY: help fast changed verify soak format types test coverage measures errors schema wheel start clean

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1|/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do printf '  %-10s %s\n' "$$name" "$$text"; done

fast: ## lint, types, and the tests marked core (doctests, cases): under a minute
	./verify --fast

changed: ## lint, types, and the tests of what differs from main
	./verify --changed

verify: ## all required checks: lint, types, all tests, Spark, the wheel
	./verify

SEED ?= $(shell date +%s)
EXAMPLES ?= 2000
soak: ## hours: new random programs, inputs and kills; SEED (printed) and EXAMPLES for others; a failure becomes a case file
	@echo "SEED=$(SEED)"; failed=; \
	DOTR_EXAMPLES=$(EXAMPLES) $(PYTHON) -m pytest -q -n 2 --dist loadfile -m random --hypothesis-seed=$(SEED) || failed=yes; \
	DOTR_EXAMPLES=$(EXAMPLES) $(PYTHON) -m pytest -q tests/temporal/layout/test_stages_random.py tests/temporal/matching/test_cut_matchers.py \
		tests/engine/state/test_staged_growth.py tests/syntax/turtle/test_graphs.py tests/streams/formats/test_ndjson.py || failed=yes; \
	$(PYTHON) -m tests.fuzz --inputs 200000 --seed $(SEED) || failed=yes; \
	DOTR_SPARK_EXAMPLES=100 DOTR_MUTATIONS=500 DOTR_MUTATIONS_SEED=$(SEED) $(PYTHON) -m pytest -q \
		tests/runtimes/spark/test_staged_programs.py tests/runtimes/spark/test_spark_properties.py \
		tests/runtimes/spark/test_checkpoint_mutations.py tests/runtimes/frames/test_frame_cases.py || failed=yes; \
	$(PYTHON) -m pytest -q -m soak tests || failed=yes; \
	$(PYTHON) -m tests.soak --amid --kills 200 --minutes 120 --seed $(SEED) || failed=yes; \
	$(PYTHON) -m tests.serve_soak --kills 100 --minutes 120 --seed $(SEED) || failed=yes; \
	$(PYTHON) -m tests.serve_chain --rounds 5 --seed $(SEED) || failed=yes; \
	$(PYTHON) -m tests.kafka_kills 300 --seed $(SEED) || failed=yes; \
	$(PYTHON) -m tests.s3a_soak --kills 50 --seed $(SEED) || failed=yes; \
	$(PYTHON) -m tests.yarn_kills 4 --seed $(SEED) || failed=yes; \
	$(PYTHON) -m tests.table_kills 20 --seed $(SEED) || failed=yes; \
	test -z "$$failed"

format: ## apply the fixes of ruff, and format
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

types: ## mypy, incremental
	.venv/bin/mypy

test: ## the tests in T: make test T="tests/cases/test_cases.py -k recursion"
	$(PYTHON) -m pytest -q $(T)

coverage: ## lines and branches that the tests without Spark reach (slow); T as for test
	$(PYTHON) -m pytest -q -n 2 --dist loadfile --cov --cov-report=term $(or $(T),-m "not spark")

measures: ## the measures of the folders: count and goal
	$(PYTHON) -m tools.measures

errors: ## regenerate the golden messages of tests/errors and docs/errors.md: review the difference
	$(PYTHON) -m tests.errors.test_rule_language_errors
	$(PYTHON) -m tests.errors.test_continuous_errors
	$(PYTHON) -m tests.errors.test_lars_errors
	$(PYTHON) -m tests.errors.test_temporal_errors
	$(PYTHON) -m tools.errors_page > docs/errors.md

schema: ## regenerate the JSON Schema of configurations and docs/configuration.md
	$(PYTHON) -c "from dotr.runtimes.pipeline.sections import schema; print(schema(), end='')" > schema.json
	mv schema.json dotr/runtimes/pipeline/config.schema.json
	$(PYTHON) -m tools.configuration_page > docs/configuration.md

wheel: ## build the wheel, install it in an empty environment, run it there
	$(PYTHON) -m tests.wheel

start: ## run the main job
	./start

clean: ## remove files of builds and runs (except the compiled backgrounds in ~/.cache/dotr)
	rm -rf build dist out *.egg-info .mypy_cache .ruff_cache .hypothesis .coverage
