#!/bin/sh
# module.sh NEW: changes the path of this module and of its nested modules everywhere:
# in go.mod files, in imports, and in the examples of the documentation.
set -eu
# make module PATH=… exports that PATH.
PATH=/usr/local/bin:/usr/bin:/bin
cd "$(dirname "$0")/.."
new=${1:-}
old=$(sed -n 's/^module //p' go.mod)
if ! printf %s "$new" | grep -Eq '^[a-z0-9][a-zA-Z0-9._~-]*(/[a-zA-Z0-9._~-]+)*$'; then
  echo "module path must look like github.com/you/agenthost, got \"$new\"" >&2
  exit 2
fi
if [ "$new" = "$old" ]; then
  echo "the module path is $old already" >&2
  exit 2
fi
escaped=$(printf %s "$old" | sed 's/[.]/\\./g')

# edit SCRIPT NAME…: applies a sed script to the files with these names that have the
# old path. One sed edits many files: a process for each takes minutes. sed writes
# copies, because the sed of macOS cannot edit without.
edit() {
  script=$1
  shift
  find . \( -name node_modules -o -name .git -o -name bin -o -name dist \) -prune -o \
    \( "$@" \) -type f -exec grep -lF "$old" {} + | tr '\n' '\0' | xargs -0 sed -i.before-module "$script"
}
edit "s#\"$escaped/#\"$new/#g; s#^\(import \|[[:space:]]\)\"$escaped\"\$#\1\"$new\"#; s#\(go get \|go install \|go doc \)$escaped/#\1$new/#g" \
  -name '*.go' -o -name '*.md' -o -name '*.txtar'
edit "s#^module $escaped\(/\|\$\)#module $new\1#; s#^\([[:space:]]*\)$escaped v0#\1$new v0#; s#^replace $escaped =>#replace $new =>#; s#^require $escaped v0#require $new v0#" \
  -name go.mod
find . -name '*.before-module' -type f -exec rm -f {} +
echo "the module path is $new; run make fmt test"
