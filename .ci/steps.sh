# The steps of .ci/run: what each needs, what its result depends on, and what it does. Sourced by .ci/run.

# In the order in which they begin, as soon as the steps that they need have passed. `build` and `test` get the CPUs
# first, so that a broken test is known early. The lab's steps take long, and begin when their programs are built.
steps='format      rustfmt, and no conflict marker is left
workflows   actionlint; needs go
build       the programs of the tests, for the steps that run them
test        the tests of the workspace (README.md)
release     the program of the Debian package, with which other steps measure
lab         the tests that need /dev/kvm, on real KVM in QEMU; needs apt-get
words       the phrases of xtask/words.toml, and the words of all pages
outputs     the commands of README.md and docs/ print what these pages show; needs apt-get and jq
deny        licences, duplicates and sources of dependencies
clippy      lints, those of the programs that build scripts compile included
msrv        the libraries compile with the rust-version
api         the public API of the libraries is that of docs/api
fuzz        the targets of fuzz/ compile
doc         rustdoc
crates      all crates can be published, and compile as their packages have them; embed/ and docs/guide.md run on these packages, also in the lab
lab-intel   the bench on VMX, which Bochs emulates, twice with the same figures; needs apt-get
lab-arm64   the tests that need /dev/kvm on arm64
subjects    the rings of vmbell and of other projects under vmbell-check
subjects-c  the same for those in C, of Linux and QEMU; needs apt-get
loom        the models of what threads share
miri-irq    undefined behaviour and data races in interrupt controllers; needs a nightly toolchain
miri-bus    the same in the bus, doorbells and quiescence
miri-rings  the same in virtqueues
page        the page of `vmbell report` in Chromium; needs npm, and Chromium or root
fleet       deploy/ with real Prometheus; needs apt-get
deb         the Debian package in a clean root; needs root and apt-get
smoke       the benchmark in short, and the probe
'

# If one of these steps fails, the run ends.
first='build test'

# The three parts of the Miri tests, which together take at least five minutes of CPU time.
thirds=(miri-irq miri-bus miri-rings)

# Prints the two parts that a run without named steps leaves to other commits, by the hash of its own commit.
left_to_other_commits() {
    local hash
    hash=$(git rev-parse HEAD)
    printf '%s\n' "${thirds[@]}" | grep -vx "${thirds[$((16#${hash:0:8} % 3))]}"
}

# Prints the steps that a step needs, including the steps that those need.
needs() {
    case $1 in
    test | words | release | api | subjects | subjects-c | lab-arm64) echo build ;;
    lab | lab-intel | outputs | crates | page | fleet | deb | smoke) echo build release ;;
    esac
}

# Prints the files on which a step's result depends, as git pathspecs, or nothing if the result is never taken from an
# earlier run. Too many files do no harm.
inputs() {
    case $1 in
    build | release) ;;
    workflows) echo .github .ci ;;
    deny) echo '*Cargo.toml' '*Cargo.lock' deny.toml .cargo .ci rust-toolchain.toml ;;
    msrv) closure "${libraries[@]}" ;;
    api) echo docs/api "$(closure xtask "${libraries[@]}")" ;;
    loom) closure vmbell vmbell-virtqueue vmbell-core vmbell-devices ;;
    miri-irq) closure vmbell vmbell-usermode ;;
    miri-bus) closure vmbell ;;
    miri-rings) closure vmbell-virtqueue ;;
    subjects) echo docs/findings.md xtask "$(inputs subjects-c)" ;;
    subjects-c) echo check/subjects "$(closure vmbell-virtqueue vmbell-devices vmbell-check cargo-vmbell-check)" ;;
    format | words | outputs | test) echo . ;;
    # The package contains these pages (crates/cli/Cargo.toml).
    deb) code README.md CHANGELOG.md ;;
    fleet) code docs/fleet.md ;;
    crates) code docs/guide.md ;;
    # Each crate's own README.md counts as code.
    *) code ;;
    esac
}

# Prints pathspecs of all files without the pages in the root and in docs/, except those given.
code() {
    echo .
    git ls-files ':(glob)*.md' ':(glob)docs/*.md' | grep -vxF -e '' "${@/#/-e}" | sed 's/^/:!/'
}

# Prints the folders of these packages, of what they use or are tested with, and of those whose files they include.
closure() {
    local packages=() name folders
    for name in "$@"; do packages+=(-p "$name"); done
    folders=$(cargo tree --locked --quiet --edges all --target all --prefix none --format '{p}' "${packages[@]}" |
        sed -n "s,.* ($PWD/\([^)]*\)).*,\1,p" | sort -u)
    # After an error all files count, instead of none.
    [ -n "$folders" ] || folders=.
    echo '*Cargo.toml' '*Cargo.lock' .cargo .ci rust-toolchain.toml "$folders"
    # shellcheck disable=SC2086 # They are several words.
    git grep -hoE '([.]{2}/)+[a-z-]+/(src|tests|examples|benches|data)/' -- $folders |
        sed -E 's,^([.]{2}/)+,,; s,/.*,,; p; s,^,crates/,' | sort -u || true
}

# The packages that other projects depend on.
libraries=(vmbell vmbell-core vmbell-virtqueue vmbell-hypervisor vmbell-usermode vmbell-guest vmbell-vfio vmbell-devices vmbell-vmm vmbell-check)

# Runs the xtask that `build` made.
xtask() {
    "$target/debug/xtask" "$@"
}

# Installs a toolchain, given by its name and options of rustup. An installed one is not updated: a new nightly each day
# would be one more reason to fail.
toolchain() {
    has rustup || skip "needs rustup, to install Rust $1"
    rustup toolchain install --profile minimal --no-self-update "$@" || skip "rustup cannot install Rust $1"
}

step_format() {
    cargo fmt --all --check
    cargo fmt --manifest-path benches/Cargo.toml --check
    cargo fmt --manifest-path check/manifests/Cargo.toml --check
    cargo fmt --manifest-path check/subjects/Cargo.toml --check
    cargo fmt --manifest-path embed/Cargo.toml --all --check
    # The marks that an unresolved conflict leaves in a file.
    ! git grep -nE '^(<{7}|>{7}) '
}

step_words() {
    xtask words
}

step_outputs() {
    local pages vmbell
    has apt-get || skip "needs apt-get, to fetch QEMU and a kernel"
    has jq || skip "needs jq, which docs/report-schema.md runs"
    # The pages show starts from saved states.
    vmbell=$(xtask package --program)
    "$vmbell" lab prepare
    # The step `subjects` has the program of the other page.
    mapfile -t pages < <(git ls-files README.md 'docs/*.md' | grep -vx docs/findings.md)
    xtask outputs "${pages[@]}"
}

step_workflows() {
    local version=1.7.12
    local actionlint=$cache/actionlint-$version/actionlint
    if [ ! -x "$actionlint" ]; then
        has go || skip "needs go, to install actionlint"
        GOBIN=$(dirname "$actionlint") go install "github.com/rhysd/actionlint/cmd/actionlint@v$version" ||
            skip "go cannot install actionlint"
    fi
    "$actionlint"
}

step_build() {
    cargo test --workspace --locked --no-run
}

step_test() {
    VMBELL_FUZZ_CASES=10000 VMBELL_CHECK_CASES=2000 VMBELL_KILLS=10 VMBELL_REMOVALS=300 cargo test --workspace --locked
    # README.md's other command: cargo has to find out which of the workspace's programs it means.
    cargo run --locked --quiet -- list >/dev/null
}

step_release() {
    xtask package --program
    # If a build script names a missing file, every build compiles its crate again, and all crates that use it.
    if xtask package --program 2>&1 | grep Compiling; then
        echo "a second build compiles again what has not changed" >&2
        return 1
    fi
}

# The steps that only check share a target folder, so that `build` and `test` do not wait for them.
step_clippy() {
    local folder=$target/check
    cargo clippy --locked --workspace --all-targets --target-dir "$folder" -- -D warnings
    cargo clippy --locked --manifest-path benches/Cargo.toml --all-targets --target-dir "$folder" -- -D warnings
    # Build scripts compile these programs, and clippy does not check them there.
    cargo clippy --locked -p vmbell-stub --target-dir "$folder" -- --cfg vmbell_stub_elf -D warnings
    cargo clippy --locked -p vmbell-probe-image --target-dir "$folder" -- --cfg vmbell_probe_elf -D warnings
    cargo clippy --locked -p vmbell-loader --target-dir "$folder" -- --cfg vmbell_loader_elf -D warnings
}

step_doc() {
    RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --document-private-items --target-dir "$target/check"
}

# Checks each crate as its package has it: unpacked next to the packages of the other crates, away from their sources.
# cargo leaves out crates with `publish = false`. Its own check would build all dependencies again, and takes an old
# package for a new one with the same version.
step_crates() {
    local fresh=$target/crates package
    rm -rf "$fresh"
    mkdir -p "$fresh/unpacked"
    cargo publish --dry-run --locked --workspace --quiet --no-verify --allow-dirty --target-dir "$fresh"
    cp Cargo.lock rust-toolchain.toml "$fresh/unpacked"
    {
        printf '[workspace]\nresolver = "3"\nmembers = ["*-[0-9]*", "embed", "embed/guide"]\n[patch.crates-io]\n'
        for package in "$fresh"/package/tmp-crate/*.crate; do
            # All files in a package have the same time, so cargo would see no change.
            tar --extract --touch --file "$package" --directory "$fresh/unpacked"
            package=$(basename "$package" .crate)
            printf '%s = { path = "%s" }\n' "${package%-*}" "$package"
        done
    } >"$fresh/unpacked/Cargo.toml"
    tar --create --exclude=target embed docs/guide.md | tar --extract --directory "$fresh/unpacked"
    # There the packages are the workspace of `embed`.
    sed -i '/^\[workspace\]$/,/^$/d; /^\[patch/,$d' "$fresh/unpacked/embed/Cargo.toml"
    local at=(--manifest-path "$fresh/unpacked/Cargo.toml" --target-dir "$target/check")
    cargo check --workspace --exclude embed --exclude my-vmm "${at[@]}"
    # The code in docs/guide.md, on the usermode backend.
    cargo test --package my-vmm --test page "${at[@]}"
    # VMMs that depend on the packages, on real KVM.
    has apt-get || skip "needs apt-get, to fetch QEMU and a kernel"
    cargo build --package embed "${at[@]}"
    local program vmbell
    vmbell=$(xtask package --program)
    "$vmbell" lab -- "$target/check/debug/embed"
    for program in interrupt device; do
        "$vmbell" lab -- "$target/check/debug/$program" kvm
    done
}

# Without `advisories`: its database is a git repository on a host that CI hosts may be unable to reach.
step_deny() {
    local version=0.20.2
    local folder=$cache/cargo-deny-$version
    if [ ! -x "$folder/bin/cargo-deny" ]; then
        # The program runs only for seconds, but its optimization would take minutes.
        CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_OPT_LEVEL=0 \
            cargo install cargo-deny --version "$version" --locked --no-default-features --no-track \
            --root "$folder" --target-dir "$target/deny" || skip "cargo cannot install cargo-deny"
        rm -rf "$target/deny"
    fi
    "$folder/bin/cargo-deny" --locked check --hide-inclusion-graph licenses bans sources
}

# Installs the toolchain of Cargo.toml's rust-version, and sets `version`.
oldest_toolchain() {
    version=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
    cargo "+$version" --version >/dev/null 2>&1 || toolchain "$version"
}

step_msrv() {
    local version packages=() name
    oldest_toolchain
    # Only the libraries: the command is built with the toolchain of this workspace.
    for name in "${libraries[@]}"; do packages+=(-p "$name"); done
    cargo "+$version" check --locked --target-dir "$target/msrv" "${packages[@]}" --features vmbell-virtqueue/serde
}

step_api() {
    local version
    oldest_toolchain
    rm -rf "$target/api"
    xtask api "$target/api"
    if ! diff -ru docs/api "$target/api"; then
        echo "the public API is another one: cargo xtask api writes docs/api" >&2
        return 1
    fi
}

# Compiles the targets like cargo-fuzz, but without instrumentation. No linking, so libFuzzer (C++) is not needed.
step_fuzz() {
    CUSTOM_LIBFUZZER_PATH=/nonexistent/libfuzzer.a RUSTFLAGS="--cfg fuzzing" \
        cargo check --locked --manifest-path fuzz/Cargo.toml --target-dir "$target/fuzz"
}

# Runs vmbell-check's subcommand in the subjects' workspace, whose crates ask for newer compilers than they need.
vmbell_check() {
    local folder
    folder=$(realpath "$target")
    (
        cd check/subjects
        CARGO_TARGET_DIR=$folder/subjects "$folder/debug/cargo-vmbell-check" vmbell-check "$@"
    )
}

# The pairs are tested only once: by the other step, if that can run, because it also has the pairs with C.
step_subjects() {
    local skip=()
    ! has apt-get || skip=(--skip _pair_loses_a_notification_)
    vmbell_check test --locked --ignore-rust-version -- "${skip[@]}"
    CARGO_TARGET_DIR=$(realpath "$target")/subjects xtask outputs docs/findings.md
}

step_subjects-c() {
    has apt-get || skip "needs apt-get, to fetch the sources of Linux and QEMU"
    VMBELL_SUBJECTS_C=$cache/subjects-c vmbell_check test --locked --ignore-rust-version --features c --test barriers --test c --test pairs
}

# Runs the models under every order that the memory model allows.
step_loom() {
    RUSTFLAGS="--cfg loom" cargo test --locked --profile loom -p vmbell -p vmbell-virtqueue -p vmbell-core -p vmbell-devices --lib models \
        --target-dir "$target/loom"
}

# Runs some unit tests of packages under Miri: those of code that shares memory between threads, or treats a ring as raw
# memory. They do less under cfg(miri), and leave out what Miri has no system calls for.
miri() {
    local packages=()
    while [ "$1" != -- ]; do
        packages+=(-p "$1")
        shift
    done
    cargo +nightly miri --version >/dev/null 2>&1 || toolchain nightly --component miri,rust-src
    # Without isolation proptest reads its number of cases and finds the folder of its regressions. Miri has one CPU.
    PROPTEST_CASES=2 RUST_TEST_THREADS=1 MIRIFLAGS="-Zmiri-disable-isolation ${MIRIFLAGS:-}" \
        cargo +nightly miri test --locked "${packages[@]}" --lib --target-dir "$target/miri" "$@"
}

# All three parts leave out thousands of random and exhaustive steps of one thread.
step_miri-irq() {
    miri vmbell vmbell-usermode -- irq:: irqchip:: --skip irqchip::tests::model --skip irqchip::tests::reach \
        --skip irqchip::tests::shared_bit --skip forwarded::line_does
}

step_miri-bus() {
    miri vmbell -- quiesce:: bus:: doorbell::
}

# Miri's store buffers for weak memory do not support a ring's words, which are accessed in several widths; the loom
# models cover that. Left out: many laps of the ring, because the other tests make a few laps.
step_miri-rings() {
    MIRIFLAGS=-Zmiri-disable-weak-memory-emulation miri vmbell-virtqueue -- --skip tests::model \
        --skip tests::plain_packed --skip tests::polling --skip tests::rounds --skip tests::suppression
}

# The README's main command, shortened, on the backend that every machine has: every row is measured, none fails. The
# lab's steps check the rows that need KVM.
step_smoke() {
    local vmbell
    vmbell=$(xtask package --program)
    # Shorter than the command's own limit of 5 minutes, to distinguish a run that hangs from one that cannot be ended.
    "$vmbell" bench --all --backend usermode --runs 3 --min-time 2ms --run-timeout 2m \
        --export-json "$target/smoke.json"
    if grep -q '"status": *"\(failed\|skipped\)"' "$target/smoke.json"; then
        echo "a row of the smoke run failed or was skipped: see $target/smoke.json" >&2
        return 1
    fi
    "$vmbell" probe
}

step_fleet() {
    cargo test --locked --manifest-path check/manifests/Cargo.toml --target-dir "$target/manifests"
    has apt-get || skip "needs apt-get, to fetch Prometheus"
    xtask fleet
}

step_deb() {
    [ "$(id -u)" = 0 ] || skip "needs root, to mount and chroot"
    has apt-get || skip "needs apt-get, to make a clean root of Debian"
    xtask package
}

step_page() {
    has npm || skip "needs npm, to fetch Playwright and axe-core"
    if ! has chromium && ! has chromium-browser && ! has google-chrome; then
        [ "$(id -u)" = 0 ] && has apt-get || skip "needs Chromium, or root and apt-get to install it"
    fi
    xtask page
}

step_lab() {
    has apt-get || skip "needs apt-get, to fetch QEMU and a kernel"
    xtask lab
}

# Bochs is deterministic, so the two reports have the same bytes.
step_lab-intel() {
    has apt-get || skip "needs apt-get, to fetch the source of Bochs and a kernel"
    local vmbell report
    vmbell=$(xtask package --program)
    for report in "$target/intel-1.json" "$target/intel-2.json"; do
        "$vmbell" lab --cpu intel --deterministic -- vmbell bench --all --export-json "$report"
    done
    cmp "$target/intel-1.json" "$target/intel-2.json"
    if grep -q '"status": *"failed"' "$target/intel-1.json"; then
        echo "a row failed on VMX: see $target/intel-1.json" >&2
        return 1
    fi
}

# Everything is built for arm64 once, and a warning there is an error.
step_lab-arm64() {
    has apt-get || skip "needs apt-get, to fetch QEMU and a kernel"
    has rustup || skip "needs rustup, to install Rust's target for arm64"
    rustup target add aarch64-unknown-linux-musl
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUSTFLAGS="-D warnings" xtask lab --arch aarch64
}
