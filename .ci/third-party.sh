# Third-party crates are compiled once per machine. cargo's output is kept in ~/.cache/vmbell/ci/target, in one folder
# per set of compilers and Cargo.locks, and linked into the target folder of the next clone, wherever that is. This
# repository's own crates are never kept: cargo distinguishes their versions only by file times, which differ in another
# clone. Sourced by .ci/run.

# Prints the folder for these compilers and lock files.
third_party_folder() {
    local key
    key=$({
        rustc -vV
        # The toolchains of the steps `miri-*` and `msrv`, if they are installed.
        rustc +nightly -vV || true
        rustup toolchain list || true
        git ls-files '*Cargo.lock' | xargs cat
    } 2>/dev/null | sha256sum | cut -c 1-16)
    echo "$cache/target/$key"
}

# Prints the names of this repository's packages, as an alternation.
own_packages() {
    git ls-files '*Cargo.toml' | xargs awk '
        /^\[/ { package = $0 == "[package]" }
        package && /^name = / { gsub(/"/, "", $3); names = names "|" $3 }
        END { print substr(names, 2) }'
}

# Prints the units of third-party crates below a target folder: PROFILE/.fingerprint/PACKAGE-HASH, and, in newer
# versions of cargo, PROFILE/build/PACKAGE/HASH/fingerprint. cargo writes *.json when a unit is complete.
third_party_units() {
    (
        cd "$1" 2>/dev/null || return 0
        find . -mindepth 4 -maxdepth 9 -path '*fingerprint/*' -name '*.json' -printf '%h\n' | sed 's,^\./,,' |
            grep -E '/(\.fingerprint/[^/]+-[0-9a-f]{16}|build/[^/]+/[0-9a-f]{16}/fingerprint)$' |
            grep -vE "/(\.fingerprint/($own)-[^-]*|build/($own)/[^/]*/fingerprint)\$" | LC_ALL=C sort -u
    )
}

# Links files of third-party crates from one target folder to another that lacks them, if cargo never changes the files.
# The small files that mark a unit as complete are copied, last of all.
link_third_party() {
    local from=$1 to=$2 own units how=--link profile
    units=$(realpath "$logs")/units
    own=$(own_packages)
    LC_ALL=C comm -23 <(third_party_units "$from") <(third_party_units "$to") >"$units"
    [ -s "$units" ] || return 0
    mkdir -p "$to"
    # On a different file system the files are copied.
    ln -f "$units" "$to/.probe" 2>/dev/null || how=
    rm -f "$to/.probe"
    {
        for profile in $(sed -n 's,/\.fingerprint/.*,,p' "$units" | LC_ALL=C sort -u); do
            find "$from/$profile/deps" -maxdepth 1 -type f -printf "$profile/deps/%f\n"
            [ ! -d "$from/$profile/build" ] ||
                find "$from/$profile/build" -mindepth 1 -maxdepth 1 -printf "$profile/build/%f\n"
        done | awk '
            # The hash of a unit is at the end of a folder name, and before the first dot of a file name.
            function hash(path) { sub(/.*\//, "", path); sub(/\..*/, "", path); return substr(path, length(path) - 15) }
            function profile(path) { sub(/\/[^\/]*\/[^\/]*$/, "", path); return path }
            FNR == NR { is_unit[profile($0), substr($0, length($0) - 15)] = 1; next }
            (profile($0), hash($0)) in is_unit' "$units" -
        (cd "$from" && sed -n 's,/fingerprint$,,p' "$units" |
            xargs -r -d '\n' sh -c 'find "$@" -mindepth 1 -maxdepth 1 ! -name fingerprint' find)
    } >"$units.files"
    (
        cd "$from"
        # shellcheck disable=SC2086 # It may be empty.
        xargs -r -d '\n' cp -a $how -f --parents -t "$to" <"$units.files"
        xargs -r -d '\n' cp -a --parents -t "$to" <"$units"
    )
}

# Runs link_third_party while no other clone runs it.
exchange_third_party() {
    local folder
    mkdir -p "$cache/target" "$target"
    folder=$(third_party_folder)
    (
        flock 9
        case $1 in
        take)
            [ ! -d "$folder" ] || link_third_party "$folder" "$(realpath "$target")"
            ;;
        keep)
            link_third_party "$(realpath "$target")" "$folder"
            touch "$folder"
            # Two folders are kept: this one, and the one used before.
            find "$cache/target" -mindepth 1 -maxdepth 1 -type d -printf '%T@ %p\n' | sort -rn | tail -n +3 |
                cut -d ' ' -f 2- | xargs -r -d '\n' rm -rf
            ;;
        esac
    ) 9>"$cache/target/lock"
}
