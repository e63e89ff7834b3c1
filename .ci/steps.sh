# The steps of .ci/run: what each needs, what its result depends on, and what it does. Sourced by .ci/run.

# In the order in which they begin, as soon as those that they need have passed. `build` and `test` have the CPUs first, so
# that a broken test is known early; the lab's are long, and begin when their programs are built.
steps='format      rustfmt, and no conflict marker is left
workflows   actionlint; needs go
build       the programs of the tests, for the steps that run them
test        the tests of the workspace (README.md)
release     the program of the Debian package, with which other steps measure
lab         the tests that need /dev/kvm, on real KVM in QEMU; needs apt-get
words       the phrases of xtask/words.toml, and the words of all pages
deny        licences, duplicates and sources of dependencies
clippy      lints, those of the programs that build scripts compile included
msrv        the libraries compile with the rust-version
api         the public API of the libraries is that of docs/api
fuzz        the targets of fuzz/ compile
doc         rustdoc
crates      each crate compiles as its package has it, and embed/ and docs/guide.md run on these packages, also in the lab
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

# If one of them fails, the run ends.
first='build test'

# The thirds of what Miri tests, which together take five minutes of CPU and more.
thirds=(miri-irq miri-bus miri-rings)

# The thirds that a run leaves to other commits, if it names no step: two, by the hash of its own commit.
left_to_other_commits() {
    local hash
    hash=$(git rev-parse HEAD)
    printf '%s\n' "${thirds[@]}" | grep -vx "${thirds[$((16#${hash:0:8} % 3))]}"
}

# The steps that a step takes something from, with their own.
needs() {
    case $1 in
    test | words | release | api | subjects | subjects-c | lab-arm64) echo build ;;
    lab | crates | page | fleet | deb | smoke) echo build release ;;
    esac
}

# The files on which the result of a step depends, as pathspecs of git; nothing if it is never taken from an earlier run. Too
# many do no harm.
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
    subjects | subjects-c) echo check/subjects "$(closure vmbell-virtqueue vmbell-devices vmbell-check)" ;;
    # Tests may read pages by any name.
    format | words | test) echo . ;;
    # Of these steps none reads the README.
    *) echo . "$(prose)" ':!README.md' ;;
    esac
}

# The pages that no code names in a string which ends with their name, as those that are left out.
prose() {
    ! git grep -qE '"([.]{2}/)*docs/?"' -- '*.rs' '*.mjs' || return 0
    comm -23 <(git ls-files 'docs/*.md' CHANGELOG.md CONTRIBUTING.md SECURITY.md | sort) \
        <(git grep -hoE '([A-Za-z0-9_.-]+/)*[A-Za-z0-9_-]+\.md"' -- '*.rs' '*.mjs' '*.toml' '*.sh' '*.yml' |
            sed -E 's,^([.]{2}/)*,,; s,"$,,' | sort -u) | sed 's/^/:!/'
}

# The folders of these packages and of those that they are made of and tested with, and those whose files they include.
closure() {
    local packages=() name folders
    for name in "$@"; do packages+=(-p "$name"); done
    folders=$(cargo tree --locked --quiet --edges all --target all --prefix none --format '{p}' "${packages[@]}" |
        sed -n "s,.* ($PWD/\([^)]*\)).*,\1,p" | sort -u)
    # An error would leave out everything.
    [ -n "$folders" ] || folders=.
    echo '*Cargo.toml' '*Cargo.lock' .cargo .ci rust-toolchain.toml "$folders"
    # shellcheck disable=SC2086 # They are several words.
    git grep -hoE '([.]{2}/)+[a-z-]+/(src|tests|examples|benches|data)/' -- $folders |
        sed -E 's,^([.]{2}/)+,,; s,/.*,,; p; s,^,crates/,' | sort -u || true
}

# What other projects depend on.
libraries=(vmbell vmbell-core vmbell-virtqueue vmbell-hypervisor vmbell-usermode vmbell-guest vmbell-vfio vmbell-devices vmbell-vmm vmbell-check)

# xtask as `build` made it.
xtask() {
    "$target/debug/xtask" "$@"
}

# Installs a toolchain: its name, then options of rustup. One that is there stays as it is: another nightly each day would
# be another reason to fail.
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
    # What a conflict leaves behind when it is not resolved.
    ! git grep -nE '^(<{7}|>{7}) '
}

step_words() {
    xtask words
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
    VMBELL_FUZZ_CASES=10000 cargo test --workspace --locked
    # README.md's other command: cargo finds which of the workspace's programs it means.
    cargo run --locked --quiet -- list >/dev/null
}

step_release() {
    xtask package --program
    # A build script that names a missing file has cargo compile its crate, and all that use it, in each build.
    if xtask package --program 2>&1 | grep Compiling; then
        echo "a second build compiles again what has not changed" >&2
        return 1
    fi
}

# The steps that only check share a folder, in which `build` and `test` do not wait for them.
step_clippy() {
    local folder=$target/check
    cargo clippy --locked --workspace --all-targets --target-dir "$folder" -- -D warnings
    cargo clippy --locked --manifest-path benches/Cargo.toml --all-targets --target-dir "$folder" -- -D warnings
    # Build scripts compile these programs, where clippy does not see them.
    cargo clippy --locked -p vmbell-stub --target-dir "$folder" -- --cfg vmbell_stub_elf -D warnings
    cargo clippy --locked -p vmbell-probe-image --target-dir "$folder" -- --cfg vmbell_probe_elf -D warnings
    cargo clippy --locked -p vmbell-loader --target-dir "$folder" -- --cfg vmbell_loader_elf -D warnings
}

step_doc() {
    RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --document-private-items --target-dir "$target/check"
}

# Each crate is checked as its package has it: unpacked beside the packages of its neighbours, far from their sources. Those that
# only tests use have none. `cargo package` would build them itself, with all dependencies anew, and takes an old package for a
# new one of the same version.
step_crates() {
    local fresh=$target/crates package
    rm -rf "$fresh"
    mkdir -p "$fresh/unpacked"
    cargo package --locked --workspace --exclude vmbell-fuzz --exclude vmbell-kit --exclude vmbell-testbed --quiet \
        --no-verify --allow-dirty --target-dir "$fresh"
    cp Cargo.lock rust-toolchain.toml "$fresh/unpacked"
    {
        printf '[workspace]\nresolver = "3"\nmembers = ["*-[0-9]*", "embed", "embed/guide"]\n[patch.crates-io]\n'
        for package in "$fresh"/package/*.crate; do
            # All files in a package have one time, by which cargo would see no change.
            tar --extract --touch --file "$package" --directory "$fresh/unpacked"
            package=$(basename "$package" .crate)
            printf '%s = { path = "%s" }\n' "${package%-*}" "$package"
        done
    } >"$fresh/unpacked/Cargo.toml"
    tar --create --exclude=target embed docs/guide.md | tar --extract --directory "$fresh/unpacked"
    # There the packages are its workspace.
    sed -i '/^\[workspace\]$/,/^$/d; /^\[patch/,$d' "$fresh/unpacked/embed/Cargo.toml"
    local at=(--manifest-path "$fresh/unpacked/Cargo.toml" --target-dir "$target/check")
    cargo check --workspace --exclude embed --exclude my-vmm "${at[@]}"
    # What docs/guide.md shows, on the usermode backend.
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

# Without `advisories`, whose data base is a repository on a git host, which CI hosts may not reach.
step_deny() {
    local version=0.20.2
    local folder=$cache/cargo-deny-$version
    if [ ! -x "$folder/bin/cargo-deny" ]; then
        # It runs for seconds, so its optimization is left out, which takes minutes.
        CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_OPT_LEVEL=0 \
            cargo install cargo-deny --version "$version" --locked --no-default-features --no-track \
            --root "$folder" --target-dir "$target/deny" || skip "cargo cannot install cargo-deny"
        rm -rf "$target/deny"
    fi
    "$folder/bin/cargo-deny" --locked check --hide-inclusion-graph licenses bans sources
}

# The toolchain of Cargo.toml's rust-version, as `version`.
oldest_toolchain() {
    version=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
    cargo "+$version" --version >/dev/null 2>&1 || toolchain "$version"
}

step_msrv() {
    local version packages=() name
    oldest_toolchain
    # Who builds the command has the toolchain of this workspace.
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

# As cargo-fuzz compiles them, but for the instrumentation. Nothing is linked, so libFuzzer, which is C++, is not needed.
step_fuzz() {
    CUSTOM_LIBFUZZER_PATH=/nonexistent/libfuzzer.a RUSTFLAGS="--cfg fuzzing" \
        cargo check --locked --manifest-path fuzz/Cargo.toml --target-dir "$target/fuzz"
}

# The subcommand of vmbell-check in the workspace of the subjects, whose crates ask for newer compilers than they need.
vmbell_check() {
    local folder
    folder=$(realpath "$target")
    (
        cd check/subjects
        CARGO_TARGET_DIR=$folder/subjects "$folder/debug/cargo-vmbell-check" vmbell-check "$@"
    )
}

# The pairs are tested once, in the other step, which has those of C as well.
step_subjects() {
    local skip=()
    ! has apt-get || skip=(--skip _pair_loses_a_notification_)
    vmbell_check test --locked --ignore-rust-version -- "${skip[@]}"
}

step_subjects-c() {
    has apt-get || skip "needs apt-get, to fetch the sources of Linux and QEMU"
    VMBELL_SUBJECTS_C=$cache/subjects-c vmbell_check test --locked --ignore-rust-version --features c --test c --test pairs
}

# Under every order that the memory model allows.
step_loom() {
    RUSTFLAGS="--cfg loom" cargo test --locked --profile loom -p vmbell -p vmbell-virtqueue -p vmbell-core -p vmbell-devices --lib models \
        --target-dir "$target/loom"
}

# Some unit tests of packages under Miri: those of what shares memory between threads, or treats a ring as raw memory. They do
# less under cfg(miri), and leave out what Miri has no system calls for.
miri() {
    local packages=()
    while [ "$1" != -- ]; do
        packages+=(-p "$1")
        shift
    done
    cargo +nightly miri --version >/dev/null 2>&1 || toolchain nightly --component miri,rust-src
    # Without isolation proptest finds its number of cases, and the folder of its regressions. Miri has one CPU.
    PROPTEST_CASES=2 RUST_TEST_THREADS=1 MIRIFLAGS="-Zmiri-disable-isolation ${MIRIFLAGS:-}" \
        cargo +nightly miri test --locked "${packages[@]}" --lib --target-dir "$target/miri" "$@"
}

# Left out of all three: thousands of random and exhaustive steps of one thread.
step_miri-irq() {
    miri vmbell vmbell-usermode -- irq:: irqchip:: --skip irqchip::tests::model --skip irqchip::tests::reach \
        --skip irqchip::tests::shared_bit --skip forwarded::line_does
}

step_miri-bus() {
    miri vmbell -- quiesce:: bus:: doorbell::
}

# A ring's words are written and read in several widths, which the buffers that Miri has for weak memory do not know; the
# loom models have that. Left out: many laps round the ring; the other tests go round a few times.
step_miri-rings() {
    MIRIFLAGS=-Zmiri-disable-weak-memory-emulation miri vmbell-virtqueue -- --skip tests::model \
        --skip tests::plain_packed --skip tests::polling --skip tests::rounds --skip tests::suppression
}

# The README's main command, shortened, on the backend that every machine has: every row measured, none failed.
# What KVM's rows need is held by the lab.
step_smoke() {
    local vmbell
    vmbell=$(xtask package --program)
    # Below the command's own limit of 5 minutes: a run that hangs is then told from one that cannot be ended.
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

# All of it is built for arm64 once, and a warning there is an error.
step_lab-arm64() {
    has apt-get || skip "needs apt-get, to fetch QEMU and a kernel"
    has rustup || skip "needs rustup, to install Rust's target for arm64"
    rustup target add aarch64-unknown-linux-musl
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUSTFLAGS="-D warnings" xtask lab --arch aarch64
}
