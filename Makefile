# Two commands matter: `make run` and `make test`. Everything else is behind small scripts in packaging/.
.PHONY: run test check fix bench bench-kv cuda-check pictures lock setup help

run:    ## set everything up, then open the console (or serve headless without a display)
	@packaging/run.sh

test:   ## set everything up, then run every test
	@packaging/test.sh

check:  ## lint, types, import contracts, patch series, pins
	@packaging/check.sh

fix:    ## repair formatting and what lint can repair
	@packaging/fix.sh

setup:  ## install uv, system libraries, Python packages and build the engine
	@packaging/setup.sh

bench:  ## what the console costs, measured; run it on a machine at rest
	@packaging/bench.sh

bench-kv: ## our engine against an unpatched build of the same source, by cache type and depth
	@stock=$$(packaging/stock-engine.sh) && uv=$$(packaging/uv.sh) && "$$uv" run --quiet python packaging/bench/kv_speed.py "$$stock" && \
	    "$$uv" run --quiet python packaging/bench/kv_siblings.py

cuda-check: ## compile our CUDA code for every architecture (needs nvcc, no GPU) and run its codecs on the host
	@packaging/cuda-check.sh

pictures: ## the README's pictures, from a real run
	@uv=$$(packaging/setup.sh) && "$$uv" run --quiet python packaging/pictures.py

lock:   ## refresh the pinned versions in pyproject.toml
	@packaging/lock.sh

help:
	@grep -E '^[a-z]+:' Makefile | sed -E 's/:[^#]*## /\t/'
