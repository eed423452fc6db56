#!/bin/sh
# install.sh --prefix DIR [--from DIR|URL] [--key FILE]: installs agenthost @VERSION@ as
# DIR/bin/agenthost, after it has verified the archive's SHA-256 with checksums.txt.
#
# The archive and checksums.txt come from --from, a folder or an HTTPS address. The default is the
# folder of this script if that has checksums.txt, otherwise the release's address. With --key, a
# public key in PEM, checksums.txt.sig must be the signature of checksums.txt; that requires OpenSSL 3.
set -eu
version='@VERSION@'
release='@RELEASE@'

fail() {
  echo "install.sh: $1" >&2
  exit "${2:-1}"
}
usage='usage: install.sh --prefix DIR [--from DIR|URL] [--key FILE]'
prefix='' from='' key=''
while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help)
      echo "$usage"
      exit
      ;;
    --prefix | --from | --key)
      [ $# -ge 2 ] || fail "$1 requires a value; $usage" 2
      case "$1" in
        --prefix) prefix=$2 ;;
        --from) from=$2 ;;
        --key) key=$2 ;;
      esac
      shift 2
      ;;
    *) fail "unknown argument \"$1\"; $usage" 2 ;;
  esac
done
[ -n "$prefix" ] || fail "--prefix is required, such as --prefix \"\$HOME/.local\"; $usage" 2
here=$(dirname "$0")
if [ -z "$from" ]; then
  from=$release
  [ ! -f "$here/checksums.txt" ] || from=$here
fi
[ -n "$from" ] || fail "--from is required: $here has no checksums.txt" 2

os=$(uname -s)
arch=$(uname -m)
case "$os" in
  Linux) os=linux ;;
  Darwin) os=darwin ;;
  *) fail "no archive for the system $os; on Windows, unpack the .zip" ;;
esac
case "$arch" in
  x86_64 | amd64) arch=amd64 ;;
  aarch64 | arm64) arch=arm64 ;;
  *) fail "no archive for the processor $arch" ;;
esac
name=agenthost_${version}_${os}_$arch
archive=$name.tar.gz

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# load FILE copies or downloads a release file to the work folder.
load() {
  case "$from" in
    https://*)
      if command -v curl >/dev/null; then
        curl --proto '=https' --tlsv1.2 -fsSL -o "$work/$1" "$from/$1" || fail "cannot download $from/$1"
      else
        wget -q --https-only -O "$work/$1" "$from/$1" || fail "cannot download $from/$1"
      fi
      ;;
    *://*) fail "--from must be a folder or an https:// address, got \"$from\"" 2 ;;
    *)
      [ -f "$from/$1" ] || fail "$from/$1 not found"
      cp "$from/$1" "$work/$1"
      ;;
  esac
}

load checksums.txt
if [ -n "$key" ]; then
  load checksums.txt.sig
  command -v openssl >/dev/null || fail "--key requires openssl"
  openssl pkeyutl -verify -pubin -inkey "$key" -rawin -in "$work/checksums.txt" -sigfile "$work/checksums.txt.sig" >/dev/null 2>&1 ||
    fail "checksums.txt is not signed by the key $key"
fi
want=$(awk -v name="$archive" '$2 == name { print $1 }' "$work/checksums.txt")
[ -n "$want" ] || fail "checksums.txt does not list $archive"
load "$archive"
if command -v sha256sum >/dev/null; then
  got=$(sha256sum "$work/$archive")
else
  got=$(shasum -a 256 "$work/$archive")
fi
got=${got%% *}
[ "$got" = "$want" ] || fail "the SHA-256 of $archive is $got, checksums.txt lists $want"

tar -xzf "$work/$archive" -C "$work"
mkdir -p "$prefix/bin" "$prefix/share/doc/agenthost"
# A rename replaces the program at once, also while it runs.
cp "$work/$name/agenthost" "$prefix/bin/.agenthost.new"
chmod 755 "$prefix/bin/.agenthost.new"
mv -f "$prefix/bin/.agenthost.new" "$prefix/bin/agenthost"
cp "$work/$name/LICENSE" "$work/$name/README.md" "$work/$name/CHANGELOG.md" "$prefix/share/doc/agenthost/"
echo "installed agenthost $version as $prefix/bin/agenthost"
