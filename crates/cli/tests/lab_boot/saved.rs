//! Saved machines and runs that start from them, as the user sees them, even if files are damaged or makers are killed.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::boots::states::{SAVED, States, beginning, figures_do_not_depend_on_the_beginning};
use super::boots::{only_boot, output, text};

/// What takes this long has hung.
const HANG: Duration = Duration::from_secs(600);
/// A machine that boots faster than the usual one.
const SMALL: [&str; 4] = ["--vcpus", "1", "--memory", "512M"];
const SAY: &str = "echo right; exit 7";

/// A folder with the small machine.
static OF_SMALL: LazyLock<States> = LazyLock::new(|| {
    let states = States::of("small");
    assert_right(&states.run(&SMALL, SAY));
    states
});

/// Checks that the script `SAY` ran, with the right output and status.
fn assert_right(output: &Output) {
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(
        (output.status.code(), stdout),
        (Some(7), "right\n"),
        "{stderr}"
    );
}

/// The lines on standard error between the first, which names the machine, and the last.
fn notes(output: &Output) -> Vec<&str> {
    let mut lines: Vec<&str> = text(&output.stderr).lines().collect();
    lines.pop();
    lines.remove(0);
    lines
}

/// A way to damage a file, and the lab's name for the damage.
type Damage = (fn(&Path), &'static str);

const DAMAGES: [Damage; 3] = [
    (
        |path| {
            let file = File::options().write(true).open(path).unwrap();
            file.set_len(file.metadata().unwrap().len() / 2).unwrap();
        },
        "has another size",
    ),
    (
        |path| {
            let file = File::options().read(true).write(true).open(path).unwrap();
            let at = file.metadata().unwrap().len() / 3;
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 1], at).unwrap();
        },
        "has another checksum",
    ),
    (|path| fs::remove_file(path).unwrap(), "is missing"),
];

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_damaged_state_is_made_anew_and_never_used() {
    let states = States::empty();
    for (file, run_with) in [("ram", 1), ("state", 0), ("manifest.json", 2)] {
        for (index, (damage, how)) in DAMAGES.iter().enumerate() {
            states.take_from(&OF_SMALL);
            let state = states.only();
            damage(&state.join(file));
            let how = if file == "manifest.json" {
                "manifest"
            } else {
                *how
            };
            // Each file gets one damage before a run; `status` checks the other damages, which needs no boot.
            if index != run_with {
                let status = states.manage(&["status", "--verify"]);
                let said = text(&status.stdout);
                assert_eq!(status.status.code(), Some(1), "{file}: {said}");
                assert!(said.contains(how), "{file}: {said}");
                continue;
            }
            let output = states.run(&SMALL, SAY);
            assert_right(&output);
            let notes = notes(&output);
            let [note] = notes.as_slice() else {
                panic!("{notes:?}");
            };
            assert!(note.contains(how), "{file}: {note}");
            assert!(note.ends_with("; saving the machine again"), "{note}");
            assert_eq!((beginning(&output).as_str(), states.only()), (SAVED, state));
            let verified = states.manage(&["status", "--verify"]);
            assert!(verified.status.success(), "{verified:?}");
        }
    }
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn another_machine_has_a_state_of_its_own() {
    let states = OF_SMALL.copy();
    let first = states.names();
    let other = [&SMALL[..], &["--append", "audit=0"]].concat();
    assert_right(&states.run(&other, SAY));
    assert_eq!(states.names().len(), 2);
    // Neither run saves anything.
    for machine in [&SMALL[..], &other] {
        let output = states.run(machine, SAY);
        assert_right(&output);
        assert_eq!(beginning(&output), SAVED);
    }
    assert_eq!(states.names().len(), 2);
    assert!(states.names().contains(&first[0]));
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_program_runs_where_no_machine_can_be_saved() {
    let states = States::empty();
    // The file of the memory is larger than the limit, so the machine cannot be saved. The window is also a file to the
    // kernel, but its 2 GiB are within the limit.
    let run = states.lab(&["--vcpus", "1", "--memory", "3G", "--", "/bin/sh", "-c", SAY]);
    let mut limited = std::process::Command::new("/bin/sh");
    limited
        .args(["-c", r#"trap "" XFSZ; ulimit -f 5000000; exec "$@""#, "sh"])
        .arg(run.get_program())
        .args(run.get_args())
        .envs(
            run.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .stdin(Stdio::null());
    let output = output(&mut limited);
    assert_right(&output);
    let notes = notes(&output);
    let [note] = notes.as_slice() else {
        panic!("{notes:?}");
    };
    assert!(
        note.starts_with("lab: cannot save this machine, booting it: "),
        "{note}"
    );
    assert!(note.contains("File too large"), "{note}");
    assert_eq!(beginning(&output), "booted (it could not be saved)");
    assert_eq!(states.names(), [""; 0]);
}

/// Waits for the end of a process, at most this long.
fn ended(child: &mut Child, limit: Duration) -> bool {
    let end = Instant::now() + limit;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    true
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_maker_that_is_killed_leaves_nothing_to_the_next_one() {
    const INSTANTS: u32 = 8;
    let _one = only_boot();
    let states = States::empty();
    let start = || {
        let mut command = states.lab(&SMALL);
        command.args(["--", "/bin/sh", "-c", SAY]).process_group(0);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let begun = Instant::now();
    assert_right(&start().wait_with_output().unwrap());
    let mut longest = begun.elapsed();
    let state = states.only();
    // Each maker but the last is killed, later in its work than the one before.
    for instant in 0..INSTANTS {
        if state.exists() {
            fs::remove_dir_all(&state).unwrap();
        }
        let begun = Instant::now();
        let mut maker = start();
        if ended(&mut maker, longest * instant / INSTANTS) {
            // This maker ended before it was killed.
            longest = longest.min(begun.elapsed());
            assert_right(&maker.wait_with_output().unwrap());
            continue;
        }
        kill_process_group(Pid::from_child(&maker), Signal::KILL).unwrap();
        maker.wait().unwrap();
    }
    let last = start().wait_with_output().unwrap();
    eprint!("{}", text(&last.stderr));
    assert_right(&last);
    assert_eq!((beginning(&last).as_str(), states.only()), (SAVED, state));
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn two_runs_at_once_make_one_state() {
    let _one = only_boot();
    let states = States::empty();
    let start = || {
        let mut command = states.lab(&SMALL);
        command.args(["--", "/bin/sh", "-c", SAY]);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    for run in [start(), start()] {
        let output = run.wait_with_output().unwrap();
        eprint!("{}", text(&output.stderr));
        assert_right(&output);
        assert_eq!(beginning(&output), SAVED);
    }
    states.only();
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn twenty_runs_from_a_state_are_all_right() {
    let _one = only_boot();
    let states = States::of("default");
    let run = |number: u8| {
        let script = format!("echo {number}; exit {number}");
        let mut command = states.lab(&["--", "/bin/sh", "-c", &script]);
        let output = command.output().unwrap();
        eprint!("{}", text(&output.stderr));
        assert_eq!(output.status.code(), Some(number.into()));
        assert_eq!(text(&output.stdout), format!("{number}\n"));
        assert_eq!(beginning(&output), SAVED);
    };
    thread::scope(|scope| {
        for first in [0, 10] {
            scope.spawn(move || (first..first + 10).for_each(run));
        }
    });
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn figures_are_those_of_a_boot_with_and_without_a_seed() {
    figures_do_not_depend_on_the_beginning(1, &["portio-no-eventfd", "irqfd-edge-to-halted"]);
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn figures_of_l2_are_those_of_a_boot_with_and_without_a_seed() {
    figures_do_not_depend_on_the_beginning(2, &["portio-no-eventfd"]);
}

/// Prints a Linux's random values, and the time of day.
pub const RANDOM: &str =
    "cat /proc/sys/kernel/random/boot_id; head -c 16 /dev/urandom | od -An -tx1; date +%s";

/// Two runs of [`RANDOM`] from one state have different random numbers, and this host's time.
pub fn random_numbers_differ_and_the_time_is_the_hosts([one, other]: [Output; 2]) {
    let [one, other] = [&one, &other].map(|output| {
        assert_eq!(beginning(output), SAVED);
        text(&output.stdout).lines().collect::<Vec<_>>()
    });
    assert!(
        one[0] != other[0] && one[1] != other[1],
        "{one:?} {other:?}"
    );
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.unwrap().as_secs();
    for time in [one[2], other[2]] {
        let time: u64 = time.parse().unwrap();
        assert!(now.abs_diff(time) < 24 * 3600, "{time} at {now}");
    }
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn no_two_runs_have_the_same_random_numbers_and_each_has_the_hosts_time() {
    let states = States::of("default");
    random_numbers_differ_and_the_time_is_the_hosts([(); 2].map(|()| states.run(&[], RANDOM)));
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn deterministic_runs_have_the_same_random_numbers_and_time_which_the_seed_decides() {
    let states = States::of("deterministic");
    let run = |seed| {
        let output = states.run(&["--deterministic", "--seed", seed], RANDOM);
        assert_eq!(beginning(&output), SAVED);
        text(&output.stdout).to_owned()
    };
    let (one, same, other) = (run("1"), run("1"), run("2"));
    assert_eq!(one, same);
    let random = |said: &str| said.lines().take(2).map(str::to_owned).collect::<Vec<_>>();
    assert!(
        random(&one)
            .iter()
            .zip(random(&other))
            .all(|(one, other)| *one != other),
        "{one}{other}"
    );
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn scripts_find_the_commands_of_a_busybox_and_a_missing_program_is_told() {
    let states = States::of("default");
    let output = states.run(
        &[],
        "dmesg | head -1; sleep 0.1; vmbell-is-not-here; echo $?; exec vmbell-is-not-here",
    );
    let said = text(&output.stdout);
    assert!(
        said.contains("] Linux version ") && said.ends_with("\n127\n"),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(127));
    const HINT: &str =
        "lab: exit status 127: a program that it starts was not found; --with copies one into L1";
    let notes = notes(&output);
    assert_eq!(
        notes.iter().filter(|note| **note == HINT).count(),
        1,
        "{notes:?}"
    );
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_guests_exit_status_127_is_no_missing_program() {
    let folder = tempfile::tempdir().unwrap();
    let guest = folder.path().join("guest.elf");
    // mov edx, 0xf4; mov eax, 63; out dx, eax; hlt; jmp to the hlt
    let code = [
        0xba, 0xf4, 0, 0, 0, 0xb8, 63, 0, 0, 0, 0xef, 0xf4, 0xeb, 0xfd,
    ];
    fs::write(&guest, kit::image::elf(&code, &[])).unwrap();
    let guest = guest.to_str().unwrap();
    let output = output(&mut States::of("default").lab(&["--", "vmbell", "run", guest]));
    assert_eq!(output.status.code(), Some(127));
    assert_eq!(notes(&output), [""; 0]);
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn the_output_of_a_deterministic_program_comes_while_it_runs() {
    let _one = only_boot();
    let mut command = States::of("deterministic").lab(&["--deterministic"]);
    let script = "echo first; while :; do :; done; echo second";
    let command = command.args(["--", "/bin/sh", "-c", script]);
    let mut run = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(run.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "first\n");
    assert!(!ended(&mut run, Duration::ZERO));
    kill_process(Pid::from_child(&run), Signal::TERM).unwrap();
    assert!(ended(&mut run, HANG));
    line.clear();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn states_are_listed_and_cleaned() {
    let states = OF_SMALL.copy();
    let state = states.only();
    let listed = |what: &str| {
        let status = states.manage(&["status"]);
        let said = text(&status.stdout).to_owned();
        let line = said.lines().find(|line| line.contains(what));
        line.map(str::to_owned)
    };
    let name = state.file_name().unwrap().to_str().unwrap();
    let line = listed(&name[..18]).unwrap();
    for part in [", 1 CPU, 512 MiB", " MB  20"] {
        assert!(line.contains(part), "{line}");
    }
    let cleaned = states.manage(&["clean"]);
    let said = text(&cleaned.stdout);
    assert!(
        cleaned.status.success() && said.contains(" MB from "),
        "{said}"
    );
    assert_eq!(states.names(), [""; 0]);
    assert_eq!(listed(&name[..18]), None);
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_machine_that_cannot_be_saved_boots_and_says_why() {
    let states = States::empty();
    for (options, began) in [
        (&["--console"][..], "booted"),
        (&["--device", "edu"], "booted (QEMU cannot save edu)"),
    ] {
        let output = states.run(&[&SMALL, options].concat(), SAY);
        assert_right(&output);
        assert_eq!(beginning(&output), began);
        assert_eq!(states.names(), [""; 0]);
    }
}
