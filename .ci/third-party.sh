# Third-party crates are compiled once on a machine: what cargo made of them is kept in ~/.cache/vmbell/ci/target, in a folder
# for each set of compilers and Cargo.locks, and linked into the target folder of the next clone, wherever that is. The crates
# of this repository are never kept: cargo tells their versions apart by the times of files only, which another clone has
# otherwise. Sourced by .ci/run.

# The folder for these compilers and lock files.
third_party_folder() {
    local key
    key=$({
        rustc -vV
        # The toolchains of the steps `miri` and `msrv`, if they are there.
        rustc +nightly -vV || true
        rustup toolchain list || true
        git ls-files '*Cargo.lock' | xargs cat
    } 2>/dev/null | sha256sum | cut -c 1-16)
    echo "$cache/target/$key"
}

# The names of this repository's packages, as an alternation.
own_packages() {
    git ls-files '*Cargo.toml' | xargs awk '
        /^\[/ { package = $0 == "[package]" }
        package && /^name = / { gsub(/"/, "", $3); names = names "|" $3 }
        END { print substr(names, 2) }'
}

# The units of third-party crates below a target folder: PROFILE/.fingerprint/PACKAGE-HASH, and, as newer versions of cargo have
# it, PROFILE/build/PACKAGE/HASH/fingerprint. cargo writes the file *.json when a unit is whole.
third_party_units() {
    (
        cd "$1" 2>/dev/null || return 0
        find . -mindepth 4 -maxdepth 9 -path '*fingerprint/*' -name '*.json' -printf '%h\n' | sed 's,^\./,,' |
            grep -E '/(\.fingerprint/[^/]+-[0-9a-f]{16}|build/[^/]+/[0-9a-f]{16}/fingerprint)$' |
            grep -vE "/(\.fingerprint/($own)-[^-]*|build/($own)/[^/]*/fingerprint)\$" | LC_ALL=C sort -u
    )
}

# Links the files of third-party crates from one target folder to another that lacks them: those that cargo never writes
# again. The small ones that tell it so are copied, last of all.
link_third_party() {
    local from=$1 to=$2 own units how=--link profile
    units=$(realpath "$logs")/units
    own=$(own_packages)
    LC_ALL=C comm -23 <(third_party_units "$from") <(third_party_units "$to") >"$units"
    [ -s "$units" ] || return 0
    mkdir -p "$to"
    # On another file system they are copied.
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
        # shellcheck disable=SC2086 # It may be no word.
        xargs -r -d '\n' cp -a $how -f --parents -t "$to" <"$units.files"
        xargs -r -d '\n' cp -a --parents -t "$to" <"$units"
    )
}

# Runs link_third_party while no other clone does.
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
            # Two are kept: this one, and that of the branch before.
            find "$cache/target" -mindepth 1 -maxdepth 1 -type d -printf '%T@ %p\n' | sort -rn | tail -n +3 |
                cut -d ' ' -f 2- | xargs -r -d '\n' rm -rf
            ;;
        esac
    ) 9>"$cache/target/lock"
}
