#!/bin/sh
# Makes Debian's Chromium available to the tests of the pages, if this may be done here; says why not otherwise.
set -u
command -v chromium > /dev/null 2>&1 && exit 0
command -v chromium-browser > /dev/null 2>&1 && exit 0
if ! command -v apt-get > /dev/null 2>&1; then echo "Skipped: there is no Chromium, and no apt-get to install it"; exit 0; fi
if [ "$(id -u)" -ne 0 ]; then echo "Skipped: there is no Chromium, and only root may install it"; exit 0; fi
echo "Installing Chromium for the tests of the pages"
{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } \
  > /dev/null 2>&1 || echo "Skipped: Chromium cannot be installed here"
