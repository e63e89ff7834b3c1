//! What a program finds in L1, and what it leaves. Most tests share two boots, which run at the same time.

use std::fs::{self, File};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use tempfile::TempDir;

use super::boots::{LIMITS, example, host_vmbell, lab, only_boot, output, text};
use kit::image;

/// The boots' output and files, and the folder in which they were started.
struct Boots {
    folder: TempDir,
    exits: Output,
    dies: Output,
}

/// The program of the first boot. It leaves a process that would outlive the test.
const EXITS: &str = r#"
echo to stdout; echo to stderr >&2
echo "$0|$1|$FROM_HOST|$FROM_OPTION|$PWD|$HOME"
echo "names: $(hostname) $(whoami) $(ping -c 1 localhost | head -1)"
echo "copied: $(cat rel/a) $(cat /up/a)"
mkdir /out/sub; cp /data/a /out/sub/b; cat >/out/input
"$2" >/out/smoke; echo smoke: $?
"$3" bench --only debug-skip >/out/bench; echo bench: $?
"$3" run /data/hello.elf --vcpus 2 --device pci-testdev,pv=on; echo image: $?
sleep 100000 & exit 200
"#;

static BOOTS: LazyLock<Boots> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir_all(path("in")).unwrap();
    fs::write(path("in/a"), "content").unwrap();
    fs::write(path("in/hello.elf"), says_hello()).unwrap();
    fs::write(path("input"), megabytes()).unwrap();
    let data = format!("{}:/data", path("in").display());
    let [relative, up] =
        ["rel/a", "/a/way/../../up/a"].map(|to| format!("{}:{to}", path("in/a").display()));
    let smoke = example("kvm_smoke");
    let (smoke, vmbell) = (smoke.to_str().unwrap(), host_vmbell());
    let mut exits = lab(&["-i", "--env", "FROM_OPTION=b c", "--with", &data]);
    exits.arg("--out").arg(path("out"));
    for with in [
        &relative,
        &up,
        smoke,
        vmbell,
        "/bin/mkdir",
        "/bin/cp",
        "/bin/cat",
        "/bin/sleep",
    ] {
        exits.args(["--with", with]);
    }
    exits
        .args([
            "--", "/bin/sh", "-c", EXITS, "zero", "one two", smoke, vmbell,
        ])
        .env("FROM_HOST", "a")
        .current_dir(&folder)
        .stdin(File::open(path("input")).unwrap());
    let mut dies = lab(&["--", "/bin/sh", "-c", "echo the other; kill -SEGV $$"]);
    let _one = only_boot();
    let [exits, dies] = [&mut exits, &mut dies].map(|command| {
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        std::thread::spawn(|| child.wait_with_output().unwrap())
    });
    let [exits, dies] = [exits, dies].map(|output| output.join().unwrap());
    for output in [&exits, &dies] {
        eprint!("{}", text(&output.stderr));
    }
    Boots {
        folder,
        exits,
        dies,
    }
});

/// A pattern that shows what is lost or moved.
fn megabytes() -> Vec<u8> {
    (0..3_000_000_u32)
        .map(|index| u8::try_from((index / 7 + index) % 251).unwrap())
        .collect()
}

/// An image that writes a line and ends with status 11.
fn says_hello() -> Vec<u8> {
    let mut code = Vec::new();
    for byte in *b"hello\n" {
        // mov dx, 0x3f8; mov al, byte; out dx, al
        code.extend([0x66, 0xba, 0xf8, 0x03, 0xb0, byte, 0xee]);
    }
    // mov edx, 0xf4; mov eax, 5; out dx, eax; hlt; jmp to the hlt
    code.extend([
        0xba, 0xf4, 0, 0, 0, 0xb8, 5, 0, 0, 0, 0xef, 0xf4, 0xeb, 0xfd,
    ]);
    image::elf(&code, &[])
}

impl Boots {
    /// A file that the first boot left.
    fn left(&self, name: &str) -> Vec<u8> {
        fs::read(self.folder.path().join("out").join(name)).unwrap()
    }

    /// Whether the first boot printed this line on standard output.
    fn said(&self, line: &str) -> bool {
        text(&self.exits.stdout).lines().any(|said| said == line)
    }
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn streams_stay_apart_and_all_eight_bits_of_the_status_come_back() {
    let Output {
        status,
        stdout,
        stderr,
    } = &BOOTS.exits;
    assert_eq!(status.code(), Some(200));
    let (stdout, stderr) = (text(stdout), text(stderr));
    assert!(stdout.starts_with("to stdout\n") && !stdout.contains("to stderr"));
    assert!(stderr.contains("\nto stderr\n") && !stderr.contains("to stdout"));
    assert!(stderr.contains("lab: exit status 200; "));
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_death_by_signal_is_told_as_such() {
    assert_eq!(BOOTS.dies.status.code(), Some(128 + 11));
    let said = text(&BOOTS.dies.stderr);
    assert!(said.contains("lab: killed by signal 11"), "{said}");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn two_boots_at_once_do_not_disturb_each_other() {
    assert_eq!(text(&BOOTS.dies.stdout), "the other\n");
    assert!(BOOTS.said("to stdout") && !BOOTS.said("the other"));
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn environment_directory_and_arguments_are_the_callers() {
    let folder = BOOTS.folder.path().canonicalize().unwrap();
    let line = format!("zero|one two|a|b c|{}|/root", folder.display());
    assert!(BOOTS.said(&line), "{}", text(&BOOTS.exits.stdout));
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn the_machine_its_user_and_localhost_have_names() {
    let line = "names: vmbell-lab root PING localhost (127.0.0.1): 56 data bytes";
    assert!(BOOTS.said(line), "{}", text(&BOOTS.exits.stdout));
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_path_in_l1_is_relative_to_the_working_directory_and_may_go_up() {
    let line = "copied: content content";
    assert!(BOOTS.said(line), "{}", text(&BOOTS.exits.stdout));
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn standard_input_and_megabytes_of_output_pass_whole() {
    let input = BOOTS.left("input");
    assert!(input == megabytes(), "{} bytes came back", input.len());
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn files_go_in_and_come_back() {
    assert_eq!(text(&BOOTS.left("sub/b")), "content");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn what_a_program_leaves_running_does_not_hold_up_the_end() {
    // The program would have run until the time limit.
    assert_eq!(BOOTS.exits.status.code(), Some(200));
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn kvm_is_real_in_functional_mode() {
    let smoke = BOOTS.left("smoke");
    assert!(BOOTS.said("smoke: 0"), "{}", text(&smoke));
    println!("{}", text(&smoke));
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_plain_vmbell_knows_where_it_is() {
    assert!(BOOTS.said("bench: 77"), "{}", text(&BOOTS.exits.stdout));
    let said = BOOTS.left("bench");
    assert!(text(&said).contains("timing    emulated: times and their ratios"));
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn an_image_runs_on_the_pc_inside_and_its_status_comes_back() {
    let said = text(&BOOTS.exits.stdout);
    assert!(BOOTS.said("hello") && BOOTS.said("image: 11"), "{said}");
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn another_projects_cargo_test_runs_on_real_kvm() {
    let project = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &str| {
        let path = project.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    write(
        "Cargo.toml",
        "[package]\nname = \"foreign\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n",
    );
    write("src/lib.rs", "");
    write(
        "tests/kvm.rs",
        r#"
        #[test]
        fn kvm_answers() {
            use std::os::fd::AsRawFd;
            unsafe extern "C" {
                fn ioctl(fd: i32, request: u64, ...) -> i32;
            }
            const KVM_GET_API_VERSION: u64 = 0xae00;
            let kvm = std::fs::File::options().read(true).write(true).open("/dev/kvm").unwrap();
            assert_eq!(unsafe { ioctl(kvm.as_raw_fd(), KVM_GET_API_VERSION, 0) }, 12);
            assert!(std::fs::read_to_string("/proc/version").unwrap().contains("Debian"));
        }
        #[test]
        fn cargo_is_felt() {
            let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap();
            assert_eq!(std::env::current_dir().unwrap(), std::path::Path::new(&folder));
            std::fs::write(std::env::temp_dir().join("x"), "x").unwrap();
            std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        }
        #[test]
        #[ignore = "shows that arguments arrive"]
        fn ignored() {
            panic!("on purpose");
        }
        "#,
    );
    let mut command = Command::new(env!("CARGO"));
    command
        .args(["test", "--offline", "--test", "kvm", "--"])
        .arg("--include-ignored")
        .current_dir(project.path());
    let runner = format!("{} lab kernel {} --", host_vmbell(), LIMITS.join(" "));
    let tested = output(
        command
            .env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", runner)
            .env("CARGO_TARGET_DIR", project.path().join("target")),
    );
    let said = text(&tested.stdout);
    assert_eq!(tested.status.code(), Some(101), "{said}");
    for part in [
        "2 passed; 1 failed",
        "test ignored ... FAILED",
        "on purpose",
    ] {
        assert!(said.contains(part), "{said}");
    }
}
