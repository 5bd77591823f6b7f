#!/bin/sh
# Makes sure that there is a PostgreSQL server for the tests, which start their own in a temporary directory.
# `make verify` calls it. If there is none, and we may, Debian's package is installed without starting its service.
set -u
if ls /usr/lib/postgresql/*/bin/initdb > /dev/null 2>&1 || command -v initdb > /dev/null 2>&1; then
    exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null 2>&1; then
    echo "Skipped: there is no PostgreSQL server here, and only root on Debian or Ubuntu can install one"
    exit 0
fi
echo "Installing Debian's PostgreSQL"
mkdir -p /etc/postgresql-common
test -e /etc/postgresql-common/createcluster.conf \
    || echo "create_main_cluster = false" > /etc/postgresql-common/createcluster.conf
export DEBIAN_FRONTEND=noninteractive
{ apt-get install --yes --quiet --no-install-recommends postgresql > /dev/null \
    || { apt-get update --quiet > /dev/null \
        && apt-get install --yes --quiet --no-install-recommends postgresql > /dev/null; }; } \
    || echo "Skipped: PostgreSQL cannot be installed here"
exit 0
