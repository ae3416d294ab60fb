#!/bin/sh
# Makes wordnet-3.0.zst, the data set of `cleave demo`, from Debian's package wordnet-base.
# Needs apt-get, dpkg-deb and zstd. Nothing of the files is changed: they are put one after the
# other, each after a line `== NAME`, and compressed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get download wordnet-base
dpkg-deb -x wordnet-base_*.deb .
for name in data.noun data.verb data.adj data.adv index.noun index.verb index.adj index.adv; do
    echo "== $name"
    cat "usr/share/wordnet/$name"
done > wordnet-3.0
zstd -q -f --ultra -22 wordnet-3.0 -o "$here/wordnet-3.0.zst"
