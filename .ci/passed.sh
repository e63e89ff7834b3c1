# Records of steps that passed on this machine, in ~/.cache/vmbell/ci/passed: the commit and the log, for each step and
# each hash of everything that its result depends on. Only commits are recorded, never changed files. For .ci/run.

# Prints the commit that is checked out, or nothing if files differ from it.
commit() {
    [ -n "$(git status --porcelain 2>&1)" ] || git rev-parse --verify --quiet HEAD || true
}

# Prints what all results depend on besides files: the machine, its tools, and variables. It is constant in a run.
machine() {
    local name
    uname -srm
    nproc
    grep -E '^(ID|VERSION_ID)=' /etc/os-release
    cc --version
    rustc -vV
    for name in $(compgen -e | grep -E '^(VMBELL|CARGO|RUST|MIRI|PROPTEST)' | sort); do
        echo "$name=${!name}"
    done
} 2>&1

# Prints the path of a step's record, without an extension, or nothing if its result is never taken from an earlier run.
record() {
    local paths
    paths=$(inputs "$1")
    [ -n "$paths" ] || return 0
    # shellcheck disable=SC2086 # They are several words.
    echo "$cache/passed/$1-$({
        echo "$machine"
        # The step may have installed the nightly toolchain in the meantime.
        [[ $1 != miri-* ]] || rustc +nightly -vV 2>&1 || true
        # The names and hashes of the files, including those that run the steps.
        set -f
        git ls-files -s -- $paths '.ci'
    } | sha256sum | cut -c 1-32)"
}

# Takes the log of a step that passed before. Fails if there is none.
take_passed() {
    local record
    [ -n "$commit" ] || return 1
    record=$(record "$1")
    [ -n "$record" ] && [ -f "$record.commit" ] || return 1
    cp "$record.log" "$logs/$1.log" && cp "$record.commit" "$logs/$1.before"
}

# Keeps the log of a step that passed on this commit.
keep_passed() {
    local record
    [ -n "$commit" ] && [ "$(commit)" = "$commit" ] || return 0
    record=$(record "$1")
    [ -n "$record" ] || return 0
    mkdir -p "$cache/passed"
    # Downloaded packages and compilers change, so old records are removed.
    find "$cache/passed" -type f -mtime +6 -delete
    # The record is complete when the last file exists.
    cp "$logs/$1.log" "$record.log.$$" && mv "$record.log.$$" "$record.log"
    git log -1 --format='%h' >"$record.commit.$$" && mv "$record.commit.$$" "$record.commit"
}
