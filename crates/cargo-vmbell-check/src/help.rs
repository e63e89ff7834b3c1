//! The text of `cargo vmbell-check --help`.

/// The whole page.
pub(crate) const TEXT: &str = "\
Run cargo with the code under test instrumented for vmbell-check, which finds lost virtqueue notifications

Usage: cargo vmbell-check <COMMAND> [OPTIONS] [ARGS]...

Commands:
  test   Build and run tests, as `cargo test --tests [ARGS]`
  build  Build, as `cargo build [ARGS]`
  run    Build and run a program that uses the checker, as `cargo run [ARGS]`
  clean  Remove the builds of all toolchains

Options:
      --atomics-only       Hook atomic operations and fences only, with stable flags of rustc. Plain and volatile
                           loads and stores are not hooked: the orders in which they matter are not explored, and the
                           checker fails if one of them reaches shared memory
      --target <TRIPLE>    Build for another Linux target on x86-64 or arm64. Defaults to the host
      --target-dir <DIR>   Build in DIR/vmbell-check. Defaults to cargo's target folder
      --weaken             With `test`: weaken each memory order of the code under test in turn, explore each test again,
                           and print which orders the tests need. Then move each store past a later access, and print
                           which of these mutants the tests find
      --site <FILE:LINE>   Change only the orders and stores at this line, and print the traces that break
      --bound <N>          Stop an exploration with a change after N executions. Defaults to the test's own limits
      --fail-unneeded      Fail if an order is stronger than any test needs. Orders in the file that calls `Explorer::run`
                           count as the scenario's and are not reported: put tests in another file
      --export-json <FILE>
      --export-markdown <FILE>
                           Write the tables of --weaken to FILE. With `-`, write them to standard output, and all else to
                           standard error
      --export-html <FILE> Write a page to FILE that has the source around each order, with a mark at its line
  -h, --help               Print help
  -V, --version            Print the version

All other arguments go to cargo.

Examples:
  cargo add --dev vmbell-check                         Once, in the package that has the test
  cargo vmbell-check test                              Run all tests of this package
  cargo vmbell-check test --test rings lost_kick       Run one test of tests/rings.rs
  cargo vmbell-check test --release -- --nocapture     Optimize, and show what the tests print
  cargo vmbell-check test --weaken --test rings        Print which fences and orders these tests need
  cargo +nightly vmbell-check test                     Use another toolchain

What is instrumented:
  Every crate in the dependency graph except vmbell-check and what it depends on, build scripts, procedural macros
  and std. The flags are -Zsanitizer=thread -Zexternal-clangrt, with RUSTC_BOOTSTRAP=1 for these crates only, so that
  a stable toolchain will do. They change with the toolchain; one that refuses them is an error. Your RUSTFLAGS, your
  profile and your RUSTC_WRAPPER stay in effect. At opt-level 0 a search is slow: use --release, or set opt-level = 1
  for the profile. The panic strategy must be `unwind`. Doc tests do not run, because rustdoc compiles them itself.

For the code:
  cfg(vmbell_check) is set in these crates, and VMBELL_CHECK=1 for build scripts and tests. C code is hooked if its
  build script compiles it with -fsanitize=thread when VMBELL_CHECK is set. With the cc crate:
      if std::env::var_os(\"VMBELL_CHECK\").is_some() { build.flag(\"-fsanitize=thread\"); }
  Do not link it with -fsanitize=thread: the checker has the functions that are called.

Builds go to target/vmbell-check/<ID>, where ID depends on the compiler, the flags and the version of this program.
They are never mixed with those of `cargo test`.

Exit status: 0 if cargo succeeds, 1 if something fails, 2 if the command line or the workspace is wrong, 128 plus the
number of the signal if one ends cargo.
";
