# Sourced by `start` and `verify`: makes .venv with Python 3.11 or later and installs this folder's dotr with the extras named.

find_python() {
    for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11; do
        if [ -n "$candidate" ] && "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "dotr needs Python 3.11, 3.12 or 3.13. Install one, or name it: PYTHON=/path/to/python3.12 $0" >&2
    exit 2
}

install_dotr() {
    if [ ! -x .venv/bin/python ]; then
        python=$(find_python)
        "$python" -m venv .venv || {
            rm -rf .venv
            echo "Python's venv is missing. On Debian and Ubuntu: apt-get install python3-venv" >&2
            exit 2
        }
    fi
    stamp=".venv/installed-$1"
    if [ ! -e "$stamp" ] || [ pyproject.toml -nt "$stamp" ]; then
        .venv/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[$1]"
        touch "$stamp"
    fi
}
