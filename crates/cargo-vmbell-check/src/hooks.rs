//! What the compiler is asked to hook, and the flags that ask for it.

/// Which operations of the code under test call the checker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hooks {
    /// Loads, stores, copies, atomic operations and fences. Uses unstable flags of rustc.
    All,
    /// Atomic operations and fences, with stable flags only.
    Atomics,
}

/// Instrument each function, but do not link LLVM's own runtime: the checker defines the functions that are called.
const THREAD: [&str; 2] = ["-Zsanitizer=thread", "-Zexternal-clangrt"];
/// Announce a load even if a store to the same place follows it.
const LOADS: &str = "-Cllvm-args=-tsan-instrument-read-before-write";
/// Do not reuse generic functions that `std` or the checker has compiled: they are not instrumented.
const GENERICS: &str = "-Zshare-generics=n";
/// Keep line tables, also in a release build, so that traces name lines of the code under test.
const LINES: [&str; 2] = ["-Cdebuginfo=line-tables-only", "-Cstrip=none"];
/// `std` is not instrumented. rustc 1.95 requires this flag to allow that, and 1.90 does not know the flag.
const MIXED: &str = "-Cunsafe-allow-abi-mismatch=sanitizer";

impl Hooks {
    /// The sets of flags to try, that of the newest compiler first.
    pub(crate) fn candidates(self) -> Vec<Vec<&'static str>> {
        match self {
            Self::All => {
                let older = vec![THREAD[0], THREAD[1], LOADS, GENERICS, LINES[0], LINES[1]];
                let mut newer = older.clone();
                newer.push(MIXED);
                vec![newer, older]
            }
            Self::Atomics => vec![vec!["-Cpasses=tsan", LINES[0], LINES[1]]],
        }
    }

    /// The value of `VMBELL_CHECK_HOOKS`, which the checker reads.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Atomics => "atomics",
        }
    }
}

impl std::fmt::Display for Hooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::All => "loads, stores, atomic operations and fences",
            Self::Atomics => "atomic operations and fences only",
        })
    }
}
