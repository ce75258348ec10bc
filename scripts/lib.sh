# Shared by the scripts: a virtual environment of the checkout, made with nothing but Python 3.11+ and pip.
# usage: . scripts/lib.sh; ensure_env core|dev|full   -> sets $PY
# ARC_TOOLKIT_VERSIONS: locked (constraints.txt, the default), newest, or lowest (what pyproject.toml declares).

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
versions=${ARC_TOOLKIT_VERSIONS:-locked}
case $versions in
  locked) VENV=${ARC_TOOLKIT_VENV:-$top/.venv} ;;
  newest | lowest) VENV=${ARC_TOOLKIT_VENV:-$top/.venv-$versions} ;;
  *) echo "ARC_TOOLKIT_VERSIONS is locked, newest or lowest, not $versions" >&2 && exit 2 ;;
esac
PY=$VENV/bin/python

find_python() {
  local candidate
  for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11 python; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  echo "arc-toolkit needs Python 3.11 or newer on the PATH (or in \$PYTHON)" >&2
  return 1
}

make_venv() {
  local python
  python=$(find_python) || return 1
  echo "making a virtual environment in $VENV" >&2
  # Debian's Python may come without ensurepip; virtualenv brings its own pip.
  "$python" -m venv "$VENV" 2>/dev/null && [ -x "$VENV/bin/pip" ] && return
  rm -rf "$VENV"
  "$python" -m pip install -q --target "$VENV.virtualenv" virtualenv &&
    PYTHONPATH="$VENV.virtualenv" "$python" -m virtualenv -q "$VENV" &&
    rm -rf "$VENV.virtualenv"
}

ensure_env() {
  local what=$1 stamp want
  stamp=$VENV/.arc-toolkit-env
  want="$(cat "$top/pyproject.toml" "$top/constraints.txt" | cksum)"
  [ -x "$PY" ] || make_venv || return 1
  # A larger environment serves the smaller wishes too.
  case " $(cat "$stamp" 2>/dev/null) " in
    "  ") ;;
    " $want full ") return ;;
    " $want dev ") [ "$what" != full ] && return ;;
    " $want core ") [ "$what" = core ] && return ;;
  esac
  echo "installing arc-toolkit ($what) into $VENV; the first time takes a minute or two" >&2
  # pip before 25.1 knows no dependency groups, and 23.2 cannot resolve azure-ai-ml with mlflow-skinny.
  "$PY" -m pip install -q --disable-pip-version-check --upgrade 'pip>=25.1' || return 1
  case $what in
    core) set -- -e "$top" ;;
    dev) set -- -e "$top" --group "$top/pyproject.toml:dev" ;;
    full) set -- -e "$top[all]" --group "$top/pyproject.toml:dev" --group "$top/pyproject.toml:real" --group "$top/pyproject.toml:lint" ;;
  esac
  install_versions "$@" || return 1
  echo "$want $what" >"$stamp"
}

install_versions() {
  local pip=("$PY" -m pip install -q --disable-pip-version-check)
  case $versions in
    locked) "${pip[@]}" -c "$top/constraints.txt" "$@" ;;
    newest) "${pip[@]}" --upgrade --upgrade-strategy eager "$@" ;;
    lowest) "${pip[@]}" uv && "$VENV/bin/uv" pip install -q --python "$PY" --resolution lowest-direct "$@" ;;
  esac
}

# Ray for `elastic`, into the environment of the checkout; says so if it cannot be installed.
ensure_ray() {
  "$PY" -c 'import ray' 2>/dev/null && return
  echo "installing Ray into $VENV; the first time takes half a minute" >&2
  "$PY" -m pip install -q --disable-pip-version-check -c "$top/constraints.txt" 'ray[client]>=2.40' && return
  echo "Ray cannot be installed here, so elastic is left out" >&2
  return 1
}
