#!/bin/sh
# Install the programs that some tests drive, where that is possible: as root, with apt-get.
# It takes four minutes at most and never fails: the tests of a missing program are skipped, with the reason.
# A package that could not be installed is not tried again before `make clean`.
cd "$(dirname "$0")/.." || exit 0

# program:package
wanted="zsh:zsh fish:fish bwrap:bubblewrap haproxy:haproxy"
# npm has Chromium for x64 only.
[ "$(uname -m)" = x86_64 ] || wanted="$wanted chromium-headless-shell:chromium-headless-shell"
failed=.interop/.not-installed

missing() {
    for one in $wanted; do
        command -v "${one%:*}" >/dev/null || printf '%s ' "${one#*:}"
    done
}

packages=$(missing)
if [ -z "$packages" ] || [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then exit 0; fi
if [ "$packages" = "$(cat "$failed" 2>/dev/null)" ]; then exit 0; fi

echo "installing programs for the tests, once: $packages"
export DEBIAN_FRONTEND=noninteractive
{
    timeout 60 apt-get update
    # One at a time, because not every system has all of them.
    # shellcheck disable=SC2016,SC2086  # the inner shell expands it; a list of words
    timeout 180 sh -c 'for package; do
        apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=60 "$package"
    done' sh $packages
} </dev/null >/dev/null 2>&1
mkdir -p .interop && missing >"$failed"
exit 0
