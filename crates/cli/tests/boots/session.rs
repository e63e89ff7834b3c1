//! An L1 that stays up: each test sends it a script with files, and gets back the script's output and files. So tests
//! share a boot, but each is complete in its function and can run alone.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use tempfile::TempDir;

use super::{LIMITS, lab_within_its_limits, linux, only_boot, text};

use vmbell::sync::Mutex;

/// The program of L1. For each line with a length it reads that many bytes of a tar archive, runs the script in it, and
/// answers in the same way with the files that the script left in `out`. Each script has its own empty network, and
/// everything that it started is ended: processes and traces.
const SERVE: &str = "
/bin/busybox mkdir /applets; /bin/busybox --install -s /applets; PATH=$PATH:/applets
while read -r length; do
    rm -rf /part; mkdir -p /part/out; cd /part || exit
    head -c $length | tar -x || exit
    unshare -n setsid timeout -s KILL 600 /bin/sh -c 'ifconfig lo up; . ./script' \\
        </dev/null >out/stdout 2>out/stderr & pid=$!
    wait $pid; echo $? >out/status
    kill -KILL $(awk \"\\$6 == $pid { print \\$1 }\" /proc/[0-9]*/stat 2>/dev/null) 2>/dev/null
    rmdir /sys/kernel/tracing/instances/* 2>/dev/null
    tar -c -f /reply -C out . && wc -c </reply && cat /reply
done
";

/// Errors after which a script is run again, in a second boot.
const CRASHES: [&str; 3] = [
    "L1's kernel panicked",
    "L1 stopped answering",
    "QEMU crashed",
];

/// An L1 that boots with the first script.
#[derive(Debug)]
pub struct Session {
    options: &'static [&'static str],
    /// Files and folders of the host, as arguments of `--with`.
    with: fn() -> Vec<String>,
    running: Mutex<Option<Running>>,
}

/// The output and files of a script.
#[derive(Debug)]
pub struct Ran {
    stdout: String,
    /// `status`, `stderr`, and the files that the script left in `out`.
    out: TempDir,
}

impl Session {
    /// An L1 with these options of `vmbell lab`, and with the files `with` in addition to those for Linux guests.
    pub const fn new(options: &'static [&'static str], with: fn() -> Vec<String>) -> Self {
        Self {
            options,
            with,
            running: Mutex::new(None),
        }
    }

    /// Runs a script of L1's shell in a directory with these files. `$VMBELL` is the command; tools that L1 lacks are
    /// busybox's.
    pub fn run(&self, script: &str, files: &[(String, Vec<u8>)]) -> Ran {
        let _one = only_boot();
        let request = archive(script, files);
        let mut running = self.running.lock();
        for again in [true, false] {
            // After a script ended the session, no other script uses it.
            let mut session = running.take().unwrap_or_else(|| self.start());
            match session.ask(&request) {
                Ok(ran) => {
                    *running = Some(session);
                    return ran;
                }
                Err(error) => {
                    let said = session.end();
                    let crash = CRASHES.iter().find(|crash| said.contains(**crash));
                    let Some(crash) = crash.filter(|_| again) else {
                        panic!("{error}: L1 ended before the script, as it says above");
                    };
                    eprintln!("lab: {crash}: the test is run once more");
                }
            }
        }
        unreachable!("the second end of a session is a failure")
    }

    fn start(&self) -> Running {
        // The program's time limit is for all scripts together; each script also has its own.
        let limits = [LIMITS[0], LIMITS[1], "--timeout", "40m"];
        let mut command = lab_within_its_limits(&limits);
        command.args(["-i", "--memory", "1536M"]);
        command.args(self.options);
        for with in linux::files().into_iter().chain((self.with)()) {
            command.args(["--with", &with]);
        }
        let vmbell = format!("VMBELL={}", linux::VMBELL);
        command.args(["--env", &vmbell, "--", "/bin/sh", "-c", SERVE]);
        Running::new(&mut command).unwrap()
    }
}

#[derive(Debug)]
struct Running {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    /// Shows the command's standard error, and writes it to the file.
    tee: Child,
    stderr: File,
}

impl Running {
    /// This process ends before the command does, so a separate process, which outlives both, passes the command's
    /// messages on.
    fn new(command: &mut Command) -> io::Result<Self> {
        let stderr = tempfile::tempfile()?;
        let mut tee = Command::new("tee")
            .args(["-a", "/dev/stderr"])
            .stdin(Stdio::piped())
            .stdout(io::stderr().as_fd().try_clone_to_owned()?)
            .stderr(stderr.try_clone()?)
            .spawn()?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(tee.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?);
        let mut child = command.spawn()?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        Ok(Self {
            stdin: stdin.ok_or(io::ErrorKind::BrokenPipe)?,
            stdout: BufReader::new(stdout.ok_or(io::ErrorKind::BrokenPipe)?),
            child,
            tee,
            stderr,
        })
    }

    fn ask(&mut self, request: &[u8]) -> io::Result<Ran> {
        writeln!(self.stdin, "{}", request.len())?;
        self.stdin.write_all(request)?;
        self.stdin.flush()?;
        let mut length = String::new();
        self.stdout.read_line(&mut length)?;
        let length = length.trim().parse().map_err(io::Error::other)?;
        let mut reply = vec![0; length];
        self.stdout.read_exact(&mut reply)?;
        let out = tempfile::tempdir()?;
        tar::Archive::new(reply.as_slice()).unpack(out.path())?;
        let stdout = std::fs::read_to_string(out.path().join("stdout"))?;
        Ok(Ran { stdout, out })
    }

    /// Ends L1, and returns the command's standard error.
    fn end(mut self) -> String {
        drop(self.stdin);
        self.child.wait().unwrap();
        self.tee.wait().unwrap();
        let mut said = String::new();
        self.stderr.rewind().unwrap();
        self.stderr.read_to_string(&mut said).unwrap();
        said
    }
}

fn archive(script: &str, files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    let script = ("script".to_owned(), script.as_bytes().to_vec());
    for (name, bytes) in files.iter().chain([&script]) {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o755);
        archive
            .append_data(&mut header, Path::new(name), bytes.as_slice())
            .unwrap();
    }
    archive.into_inner().unwrap()
}

impl Ran {
    /// The script's output. Fails unless the script succeeded.
    pub fn said(&self) -> &str {
        let [status, stderr] = ["status", "stderr"].map(|name| self.left(name));
        let (status, stderr) = (text(&status).trim(), text(&stderr));
        assert_eq!(status, "0", "{}{stderr}", self.stdout);
        &self.stdout
    }

    /// All output of the script, with standard error at the end.
    pub fn all(&self) -> String {
        format!("{}{}", self.stdout, text(&self.left("stderr")))
    }

    /// A file that the script left in `out`; fails with the script's standard error.
    pub fn left(&self, name: &str) -> Vec<u8> {
        let file = self.out.path().join(name);
        std::fs::read(&file).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}
