#!/bin/sh
# make torch-versions: what is found out of PyTorch's library at run time, tested with older versions of it.
#
#     scripts/torch_versions.sh [VERSION...]        default: the oldest one for CPython 3.12, and one of each year since
#
# Each is installed once, in $XDG_CACHE_HOME/pyhybrid (default ~/.cache): 3 to 6 GB.  Left out are the tests that compare with
# hooks which only later versions have.  Tests that do not hold fail; what is not proven must be off, and said.
set -eu
cd "$(dirname "$0")/.."

[ $# -gt 0 ] || set -- 2.2.2 2.7.1
scripts/packages.sh build test
found=$(scripts/pythons.sh first)
tools=$(scripts/venv.sh "${found#* }" ".venvs/${found%% *}" build test torch)
python=$PWD/.venvs/${found%% *}/bin/python
cache=${XDG_CACHE_HOME:-$HOME/.cache}/pyhybrid
PATH=$tools:$PATH
export PYTHONDONTWRITEBYTECODE=1
for version in "$@"; do
    folder=$cache/${found%% *}-torch-$version
    if [ ! -e "$folder/.complete" ]; then
        numpy=numpy
        case $version in 2.[0-2].*) numpy='numpy<2' ;; esac
        rm -rf "$folder"
        "${found#* }" -m pip install --quiet --target "$folder" "torch==$version" "$numpy"
        touch "$folder/.complete"
    fi
    echo "=== PyTorch $version"
    PYTHONPATH=$folder "$python" -P -m pytest -q -p no:cacheprovider tests/system/torch/test_backward.py \
        -k 'not each_node and not compiled' </dev/null
done
