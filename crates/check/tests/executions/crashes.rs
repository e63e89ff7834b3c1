//! Tasks that crash, as C code can: each crash is a failure with a trace, and the checker continues.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::Mutex;

use vmbell_check::Order::Relaxed;
use vmbell_check::{Explorer, Failure, Memory, Model, What};

/// A crash: the signal, the address, and the function.
type Crash = (&'static str, Option<usize>, String);

/// Explores a device that crashes once it sees the driver's store.
fn crash_of(crash: fn()) -> (Crash, String) {
    let explorer = Explorer::new().models([Model::Sc]);
    let report = explorer.run(|scenario| {
        let memory = scenario.memory();
        scenario.name(0, 2, "avail.idx");
        scenario.task("driver", move || memory.store(0, 2, 1, Relaxed));
        scenario.background("device", move || serve(memory, crash));
    });
    let report = report.expect("it can be explored");
    let failure = report.failure().expect("it crashes in one execution");
    (parts(failure), report.to_string())
}

fn serve(memory: Memory, crash: fn()) {
    if memory.load(0, 2, Relaxed) == 1 {
        crash();
    }
}

fn parts(failure: &Failure) -> Crash {
    let What::Crashed {
        task,
        signal,
        address,
        site,
    } = &failure.what
    else {
        panic!("{:?}", failure.what)
    };
    assert_eq!(task, "device");
    (signal, *address, site.clone())
}

#[inline(never)]
fn read_near_null() {
    // SAFETY: none: it reads an unmapped address on purpose.
    unsafe { ptr::without_provenance::<u16>(0x18).read_volatile() };
}

fn abort() {
    std::process::abort();
}

extern "C" fn panic_as_code_in_c() {
    panic!("it cannot unwind");
}

fn panic_where_it_cannot_unwind() {
    panic_as_code_in_c();
}

fn execute_nothing() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: none: it executes an invalid instruction on purpose.
    unsafe {
        std::arch::asm!("ud2");
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("udf #0");
    }
}

fn stop_for_a_debugger() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: none: it traps on purpose, and no debugger waits for that.
    unsafe {
        std::arch::asm!("int3");
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("brk #1");
    }
}

fn raise<const SIGNAL: i32>() {
    // SAFETY: it sends a signal to this thread, which the checker handles.
    unsafe { libc::raise(SIGNAL) };
}

#[allow(unconditional_recursion, reason = "it overflows the stack, on purpose")]
fn recurse() {
    let bytes = std::hint::black_box([0_u8; 512]);
    recurse();
    std::hint::black_box(bytes);
}

#[test]
fn a_task_that_reads_near_null_is_a_failure_with_a_trace() {
    let ((signal, address, site), text) = crash_of(read_near_null);
    assert_eq!((signal, address), ("SIGSEGV", Some(0x18)), "{text}");
    assert!(site.starts_with("read_near_null"), "{text}");
    let lines = text.lines().map(str::trim).collect::<Vec<_>>();
    assert_eq!(
        lines[1..5],
        [
            "driver: store avail.idx := 1",
            "device: load  avail.idx = 1",
            "driver  was stopped",
            "device  crashes with SIGSEGV",
        ],
        "{text}"
    );
}

#[test]
fn each_signal_of_a_crash_is_a_failure() {
    let crashes: [(fn(), &str); 7] = [
        (abort, "SIGABRT"),
        (panic_where_it_cannot_unwind, "SIGABRT"),
        (execute_nothing, "SIGILL"),
        (stop_for_a_debugger, "SIGTRAP"),
        (raise::<{ libc::SIGBUS }>, "SIGBUS"),
        (raise::<{ libc::SIGFPE }>, "SIGFPE"),
        (recurse, "SIGSEGV"),
    ];
    for (crash, expected) in crashes {
        let ((signal, address, _), text) = crash_of(crash);
        assert_eq!(signal, expected, "{text}");
        assert_eq!(address.is_some(), expected == "SIGSEGV", "{text}");
        assert!(
            text.contains(&format!("device  crashes with {expected}")),
            "{text}"
        );
    }
}

#[test]
fn a_task_that_crashes_as_it_unwinds_is_no_failure() {
    struct Crashes;
    impl Drop for Crashes {
        fn drop(&mut self) {
            abort();
        }
    }
    let report = Explorer::new().run(|scenario| {
        let sleeper = scenario.sleeper("device", &["kick"]);
        scenario.background("device", move || {
            let _crashes = Crashes;
            sleeper.wait();
        });
    });
    let report = report.expect("it can be explored");
    report.assert_complete().assert_no_failure();
}

#[test]
fn a_task_that_crashes_under_each_model_leaves_a_checker_that_works() {
    let explore = |crashes: bool| {
        let report = Explorer::new().run(|scenario| {
            let memory = scenario.memory();
            scenario.task("driver", move || memory.store(0, 2, 1, Relaxed));
            scenario.task("device", move || {
                if memory.load(0, 2, Relaxed) == 1 && crashes {
                    read_near_null();
                }
            });
        });
        report.expect("it can be explored")
    };
    let report = explore(true);
    for verdict in &report.verdicts {
        let failure = verdict
            .failure
            .as_ref()
            .expect("it crashes in one execution");
        assert_eq!(parts(failure).0, "SIGSEGV", "{report}");
    }
    explore(false).assert_complete().assert_no_failure();
}

/// A lock like that of a C library's heap.
static LOCK: Mutex<()> = Mutex::new(());

#[test]
fn a_lock_that_a_crash_leaves_behind_is_named() {
    const CHILD: &str = "VMBELL_CHECK_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        let report = Explorer::new().patience(2).run(|scenario| {
            scenario.task("device", || {
                let _lock = LOCK.lock();
                abort();
            });
        });
        return drop(report);
    }
    let program = std::env::current_exe().expect("the test has a program");
    let output = std::process::Command::new(program)
        .args([
            "--exact",
            "--nocapture",
            "crashes::a_lock_that_a_crash_leaves_behind_is_named",
        ])
        .env(CHILD, "1")
        .output()
        .expect("the program starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("after a task crashed with SIGABRT"), "{text}");
}
