# What passed before on this machine, in ~/.cache/vmbell/ci/passed: for each step and each hash of all that its result depends
# on, the commit and the log. Only commits are recorded, never a tree with changes. Sourced by .ci/run.

# The commit that is checked out; nothing if files differ from it.
commit() {
    [ -n "$(git status --porcelain 2>&1)" ] || git rev-parse --verify --quiet HEAD || true
}

# What all results depend on besides files: the machine, its tools, and what variables say. It is the same in the whole run.
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

# The path of the record of a step, without an ending; nothing if its result is never taken from an earlier run.
record() {
    local paths
    paths=$(inputs "$1")
    [ -n "$paths" ] || return 0
    # shellcheck disable=SC2086 # They are several words.
    echo "$cache/passed/$1-$({
        echo "$machine"
        # Its step may have installed it since.
        [[ $1 != miri-* ]] || rustc +nightly -vV 2>&1 || true
        # The names and hashes of the files, and how the steps run.
        set -f
        git ls-files -s -- $paths '.ci'
    } | sha256sum | cut -c 1-32)"
}

# Takes the log of a step that passed before; fails if there is none.
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
    # What comes from the network changes: packages and compilers.
    find "$cache/passed" -type f -mtime +6 -delete
    # The last file makes the record whole.
    cp "$logs/$1.log" "$record.log.$$" && mv "$record.log.$$" "$record.log"
    git log -1 --format='%h' >"$record.commit.$$" && mv "$record.commit.$$" "$record.commit"
}
