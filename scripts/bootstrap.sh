#!/bin/sh
# Create the virtual environment for all make targets. Usage: bootstrap.sh DIRECTORY
# Needs Python 3.11+ and Java 17+; if they are missing, prints how to install them.
set -eu
venv=$1
least_python="3, 11"
least_java=17

advise() { # advise WHAT DEBIAN FEDORA MACOS
    printf 'Error: %s\n' "$1" >&2
    printf '  Debian/Ubuntu: sudo apt-get install %s\n' "$2" >&2
    printf '  Fedora:        sudo dnf install %s\n' "$3" >&2
    printf '  macOS:         brew install %s\n' "$4" >&2
    exit 1
}

is_recent() { "$1" -c "import sys; sys.exit(sys.version_info < ($least_python))" 2>/dev/null; }

python=
for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
    if command -v "$candidate" >/dev/null 2>&1 && is_recent "$candidate"; then
        python=$candidate
        break
    fi
done
[ -n "$python" ] || advise "Python 3.11 or later is needed, but not on the PATH" \
    "python3 python3-venv" "python3" "python@3.12"
"$python" -c 'import ensurepip, venv' 2>/dev/null || advise "Python's venv module is missing" \
    "python3-venv" "python3" "python@3.12"

java=${JAVA_HOME:+$JAVA_HOME/bin/java}
java=${java:-java}
version=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1) || version=
if [ -z "$version" ] || [ "$version" -lt "$least_java" ]; then
    advise "Java 17 or later is needed${version:+, found $version}" \
        "openjdk-17-jre-headless" "java-17-openjdk-headless" "openjdk@17"
fi

# Recreate an environment of an older Python, where packages would fail in confusing ways.
if [ -x "$venv/bin/python" ] && ! is_recent "$venv/bin/python"; then rm -rf "$venv"; fi
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
echo "Installing the pinned dependencies into $venv (PySpark is large: a minute or two the first time)"
pip="$venv/bin/python -m pip --disable-pip-version-check --quiet"
$pip install --require-hashes --requirement requirements.lock
$pip install --no-deps --no-build-isolation --editable .
