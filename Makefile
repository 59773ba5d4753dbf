# The front door: `make help`.  Each target is one script; the scripts say how.
#
# Options are variables:
#   PYTHON=python3.13   the interpreter to use (default: those that scripts/pythons.sh finds)
#   SAN=address         build with these sanitizers (-fsanitize=), and run the tests that they can
#   DURATION=300        seconds of each stress test (default 180; 15 in `make test-all`), or of each fuzz
#                       target (60; 2 in `make test`, 8 in `make test-all`)
#   PAIRS=3             rounds of each benchmark (default 15)
#   ARGS='-k join'      more arguments for pytest or for the bench
#   WORKERS=4           how many tests run at once (default: three for two processors)

export PYTHON SAN DURATION PAIRS ARGS WORKERS

.DEFAULT_GOAL := help

demo: ## profile examples/train.py with everything set up for it; the result is in demo/
	@scripts/demo.sh

unit: ## tests/c and tests/unit: two minutes, without PyTorch, as anyone (PYTHON=, SAN=, ARGS=); one test: scripts/t
	@scripts/test.sh unit

test: ## a test or two of each behaviour, on every CPython >= 3.12 found: eight minutes (PYTHON=, SAN=, ARGS=, WORKERS=)
	@scripts/test.sh

test-all: ## all tests, further cases and slow ones, too, as root and as an ordinary user, on every interpreter (as above)
	@scripts/test.sh all

test-slice: ## a part of what test-all has beyond test, ten minutes at most (SLICE=2/11)
	@scripts/test.sh slice "$(SLICE)"

torch-versions: ## what is found in PyTorch's library, with older versions of it (`scripts/torch_versions.sh VERSION...`)
	@scripts/torch_versions.sh

matrix: ## all tests on CPython 3.14 and 3.15, of Debian sid in a chroot, and on a 3.14 of tail calls (root only)
	@scripts/matrix.sh

check: ## compiler warnings as errors, static analysis, types, format, signal-side symbols
	@scripts/check.sh

docs: ## the site, into build/docs: warnings are errors, links within it are checked
	@scripts/docs.sh

map: ## print the map of the source: one line a file, from their heads
	@python3 scripts/map.py

stress: ## signals at 10 kHz in the midst of what takes locks, for minutes (DURATION=, PYTHON=)
	@scripts/stress.sh

fuzz: ## readers of ELF files, perf maps, jitdumps and spools over damaged ones, a minute each (DURATION=)
	@scripts/fuzz.sh

bench: ## measure, keep the figures in bench/; ARGS=--tables writes docs/benchmarks.md of them (PAIRS=)
	@scripts/bench.sh

bench-peers: ## the same programs under other profilers (PAIRS=)
	@scripts/bench_peers.sh

wheels: ## the sdist, and a wheel for each interpreter that runs on other systems, too; into build/wheels/dist (PYTHON=)
	@scripts/wheels.sh

release: ## what is released of this commit: tests, wheels twice, their names and hashes; uploads nothing
	@scripts/release.sh

build: ## build pyhybrid into .venv, and nothing else
	@scripts/packages.sh build
	@set -e; found=$$(scripts/pythons.sh first); scripts/venv.sh "$${found#* }" .venv build >/dev/null

clean: ## remove what was built (not ~/.cache/pyhybrid, which holds torch)
	rm -rf build .venv .venvs demo .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

help: ## this text
	@sed -n 's/^\([a-z-]*\): ## /\1\t/p' Makefile | while IFS='	' read -r t s; do printf '  make %-11s %s\n' "$$t" "$$s"; done

.PHONY: demo unit test test-all test-slice torch-versions matrix check docs map stress fuzz bench bench-peers wheels release build clean help
