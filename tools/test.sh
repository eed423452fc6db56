#!/usr/bin/env bash
# test.sh TARGET…: runs make targets with everything that their tests need, and lists at
# the end which tests were left out and how to run them.
#
# The tests use PostgreSQL and MariaDB at AGENTHOST_TEST_POSTGRES and
# AGENTHOST_TEST_MYSQL, or at the default ports of this machine. A missing server is
# started for this run only, on a free port, with its data in a temporary folder. As root
# on Debian the script installs missing programs; it never starts a system service.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin
work=$(mktemp -d)
chmod 755 "$work"
pids=()
stop() {
  local pid
  for pid in ${pids[@]+"${pids[@]}"}; do kill "$pid" 2>/dev/null || true; done
  for pid in ${pids[@]+"${pids[@]}"}; do wait "$pid" 2>/dev/null || true; done
  rm -rf "$work"
}
trap stop EXIT

has() { command -v "$1" >/dev/null; }
is_open() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
may_install() { [ "$(id -u)" = 0 ] && has apt-get; }
report() { echo "$*" >&2; }

# install PROGRAM PACKAGE…: installs Debian packages if a program is missing.
install() {
  local program=$1
  shift
  has "$program" && return
  may_install || return 0
  report "installing $*"
  [ -e "$work/updated" ] || apt-get update -qq >"$work/updated" 2>&1 || true
  DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "$@" >"$work/install.log" 2>&1 || {
    tail -5 "$work/install.log" >&2
    report "installation failed"
  }
}

# free_port prints a port that no one listens on.
free_port() {
  local port
  for _ in $(seq 100); do
    port=$((20000 + RANDOM % 12000))
    is_open "$port" || break
  done
  echo "$port"
}

# as_user USER COMMAND…: as root, runs a command as a user: the servers refuse root.
as_user() {
  local user=$1
  shift
  if [ "$(id -u)" = 0 ]; then setpriv --reuid="$user" --regid="$user" --clear-groups -- "$@"; else "$@"; fi
}

# start USER PORT COMMAND…: starts a server and waits until it listens.
start() {
  local user=$1 port=$2
  shift 2
  # exec makes the server the process that stop ends, instead of its child.
  (
    if [ "$(id -u)" = 0 ]; then exec setpriv --reuid="$user" --regid="$user" --clear-groups -- "$@"; fi
    exec "$@"
  ) >"$work/server-$port.log" 2>&1 &
  local pid=$!
  pids+=("$pid")
  for _ in $(seq 300); do
    is_open "$port" && return
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  tail -5 "$work/server-$port.log" >&2
  return 1
}

data_folder() { # USER NAME
  mkdir -m 700 "$work/$2"
  if [ "$(id -u)" = 0 ]; then chown "$1" "$work/$2"; fi
}

postgres_program() { ls -d /usr/lib/postgresql/*/bin/"$1" 2>/dev/null | sort -V | tail -1 || true; }

start_postgres() {
  local port
  if [ -z "$(postgres_program initdb)" ]; then
    # The package must create no cluster of its own.
    install pg_createcluster postgresql-common
    [ ! -w /etc/postgresql-common/createcluster.conf ] ||
      sed -i 's/^#\?create_main_cluster.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf
    install no-such-program postgresql
  fi
  [ -n "$(postgres_program initdb)" ] || return 1
  port=$(free_port)
  data_folder postgres postgres &&
    as_user postgres "$(postgres_program initdb)" -D "$work/postgres" -U postgres -A trust -E UTF8 --no-sync >"$work/initdb.log" 2>&1 &&
    start postgres "$port" "$(postgres_program postgres)" -D "$work/postgres" -p "$port" \
      -c listen_addresses=127.0.0.1 -c unix_socket_directories="$work/postgres" -c max_connections=200 &&
    as_user postgres "$(postgres_program createdb)" -h 127.0.0.1 -p "$port" -U postgres test || return 1
  export AGENTHOST_TEST_POSTGRES=postgres://postgres@127.0.0.1:$port/test
}

start_mysql() {
  local port
  install mariadbd mariadb-server-core mariadb-client-core
  has mariadbd && has mariadb-install-db && has mariadb || return 1
  if [ "$(id -u)" = 0 ] && ! id mysql >/dev/null 2>&1; then useradd --system --no-create-home --shell /usr/sbin/nologin mysql; fi
  port=$(free_port)
  data_folder mysql mysql &&
    as_user mysql mariadb-install-db --no-defaults --datadir="$work/mysql" --auth-root-authentication-method=normal --skip-test-db >"$work/mysql.log" 2>&1 &&
    start mysql "$port" mariadbd --no-defaults --datadir="$work/mysql" --bind-address=127.0.0.1 --port="$port" \
      --socket="$work/mysql/socket" --pid-file="$work/mysql/pid" --max-connections=300 &&
    mariadb --no-defaults -h 127.0.0.1 -P "$port" -u root -e 'CREATE DATABASE test' || return 1
  export AGENTHOST_TEST_MYSQL=mysql://root@127.0.0.1:$port/test
}

install gcc gcc libc6-dev
install pgbouncer pgbouncer
install systemd-analyze systemd
install rpm rpm
install ruby ruby
install nvim neovim
install npm nodejs npm
if [ -z "${AGENTHOST_TEST_POSTGRES:-}" ] && ! is_open 5432; then
  report "starting PostgreSQL for this run"
  start_postgres || report "PostgreSQL is not available"
fi
if [ -z "${AGENTHOST_TEST_MYSQL:-}" ] && ! is_open 3306; then
  report "starting MariaDB for this run"
  start_mysql || report "MariaDB is not available"
fi

status=0
make "$@" 2>&1 | tee "$work/log" || status=$?

# hint TEXT PATTERN: prints the number of left out tests that match, with the way to
# run them.
hint() {
  local n
  n=$(grep -cE "$2" "$work/skips" || true)
  [ "$n" = 0 ] || printf '%6d  %s\n' "$n" "$1"
  grep -vE "$2" "$work/skips" >"$work/rest" || true
  mv "$work/rest" "$work/skips"
}
if .ci/skips "$work/log" >"$work/skips"; then
  report ""
  report "tests that were left out:"
  {
    hint 'PostgreSQL: install it, or set AGENTHOST_TEST_POSTGRES to the URL of a server' 'AGENTHOST_TEST_POSTGRES'
    hint 'MySQL or MariaDB: install it, or set AGENTHOST_TEST_MYSQL to the URL of a server' 'AGENTHOST_TEST_MYSQL'
    hint 'PgBouncer: apt-get install pgbouncer' '[Pp]g[Bb]ouncer'
    hint "other projects' files, which are not in this repository: set AGENTHOST_CORPUS" 'AGENTHOST_CORPUS'
    hint 'Python in WebAssembly: install Node.js with npm, then make interpreters' 'npm|interpreter|Python'
    hint 'Neovim: apt-get install neovim' 'nvim'
    hint 'the race detector: install a C compiler' 'C compiler'
    sed 's/^SKIPPED: /     1  /' "$work/skips"
  } >&2
fi
exit "$status"
